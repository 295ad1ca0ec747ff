import java.net.ConnectException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

class Main {
    static String get(String address) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(address)).build();
        return HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString()).body();
    }

    public static void main(String[] arguments) throws Exception {
        System.out.print(get("http://plain.test/"));
        try {
            get("http://evil.test/");
        } catch (ConnectException unknown) {
            System.out.println("not evil");
        }
    }
}
