import java.util.List;

public class Solution {
    public static void main(String[] arguments) {
        System.out.println(6 * 7 + " 北京 " + List.of(3, 1));
    }
}
