//! What requests demand of the existing file, by `If-Match`, `If-None-Match` and `If-Unmodified-Since`.

use std::fs::File;
use std::time::SystemTime;

use super::*;

#[tokio::test]
async fn a_request_is_refused_where_the_file_is_not_as_it_demands() {
    let app = TestApp::on_fake().await;
    let ask = async |method: Method, name: &str, header: (&str, &str)| {
        let asked = format!("{method} {name} {}: {}", header.0, header.1);
        let request = request(method, &format!("{FILES}/{name}")).header(header.0, header.1);
        let answer = app.send(request.body(Body::from("new")).unwrap()).await;
        match answer.status.as_u16() {
            400.. => format!("{asked} -> {}", code(&answer)),
            status => format!("{asked} -> {status}"),
        }
    };
    let before = "Sat, 01 Jan 2000 00:00:00 GMT";
    let after = "Fri, 31 Dec 2100 00:00:00 GMT";
    let mut seen = vec![
        ask(Method::PUT, "f", ("if-match", "*")).await,
        ask(Method::DELETE, "f", ("if-match", "*")).await,
        ask(Method::PUT, "f", ("if-unmodified-since", before)).await,
        ask(Method::PUT, "f", ("if-none-match", "*")).await,
        ask(Method::PUT, "f", ("if-unmodified-since", before)).await,
        ask(Method::PUT, "f", ("content-range", "bytes 0-2/6")).await,
    ];
    for header in [
        ("if-match", "\"tag\""),
        ("if-match", "*"),
        ("if-unmodified-since", before),
        ("if-unmodified-since", after),
        ("if-unmodified-since", "soon"),
    ] {
        seen.push(ask(Method::GET, "f", header).await);
    }
    for header in [("if-match", "\"tag\""), ("if-unmodified-since", before)] {
        seen.push(ask(Method::DELETE, "f", header).await);
    }
    let file = app.ask(Method::GET, &format!("{FILES}/f")).await;
    let date = file.header("last-modified");
    seen.push(
        ask(Method::DELETE, "f", ("if-unmodified-since", date))
            .await
            .replace(date, "…"),
    );
    seen.push(ask(Method::PUT, "g", ("if-none-match", "*")).await);
    seen.push(ask(Method::PUT, "g", ("if-none-match", "\"tag\"")).await);
    insta::assert_snapshot!(seen.join("\n"), @r#"
    PUT f if-match: * -> 412 precondition_failed
    DELETE f if-match: * -> 404 file_not_found
    PUT f if-unmodified-since: Sat, 01 Jan 2000 00:00:00 GMT -> 201
    PUT f if-none-match: * -> 412 precondition_failed
    PUT f if-unmodified-since: Sat, 01 Jan 2000 00:00:00 GMT -> 412 precondition_failed
    PUT f content-range: bytes 0-2/6 -> 400 invalid_arguments
    GET f if-match: "tag" -> 412 precondition_failed
    GET f if-match: * -> 200
    GET f if-unmodified-since: Sat, 01 Jan 2000 00:00:00 GMT -> 412 precondition_failed
    GET f if-unmodified-since: Fri, 31 Dec 2100 00:00:00 GMT -> 200
    GET f if-unmodified-since: soon -> 200
    DELETE f if-match: "tag" -> 412 precondition_failed
    DELETE f if-unmodified-since: Sat, 01 Jan 2000 00:00:00 GMT -> 412 precondition_failed
    DELETE f if-unmodified-since: … -> 204
    PUT g if-none-match: * -> 201
    PUT g if-none-match: "tag" -> 200
    "#);
}

#[tokio::test]
async fn a_file_that_changes_while_another_is_received_is_not_replaced() {
    let app = TestApp::on_fake().await;
    for (header, value) in [
        ("if-match", "*"),
        ("if-unmodified-since", "Thu, 01 Jan 2015 00:00:00 GMT"),
        ("if-none-match", "*"),
    ] {
        let is_for_new = header == "if-none-match";
        if !is_for_new {
            app.put("f", "old").await;
            let path = app.workspace("demo").join("f");
            let file = File::options().write(true).open(path).unwrap();
            let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_400_000_000);
            file.set_modified(old).unwrap();
        }
        let (pieces, receiver) = mpsc::channel::<Result<Bytes, std::io::Error>>(1);
        let late = request(Method::PUT, &format!("{FILES}/f")).header(header, value);
        let late = late.body(Body::from_stream(ReceiverStream::new(receiver)));
        let late = app.send(late.unwrap());
        let meanwhile = async {
            pieces.send(Ok(Bytes::from("late"))).await.unwrap();
            eventually("it is being received", || app.spooled() == 1).await;
            if header == "if-match" {
                app.ask(Method::DELETE, &format!("{FILES}/f")).await;
            } else {
                app.put("f", "other").await;
            }
            drop(pieces);
        };
        let (late, ()) = tokio::join!(late, meanwhile);
        assert_eq!(code(&late), "412 precondition_failed", "{header}");
        let there = app.ask(Method::GET, &format!("{FILES}/f")).await;
        let expected = match header {
            "if-match" => StatusCode::NOT_FOUND,
            _ => StatusCode::OK,
        };
        assert_eq!(there.status, expected, "{header}");
        assert_ne!(there.text(), "late", "{header}");
        app.ask(Method::DELETE, &format!("{FILES}/f")).await;
    }
    assert_eq!(app.spooled(), 0);
}

#[tokio::test]
async fn a_file_that_is_not_wanted_is_not_received() {
    let app = TestApp::on_fake().await;
    app.put("f", "old").await;
    for header in [
        ("if-none-match", "*"),
        ("if-match", "\"tag\""),
        ("if-unmodified-since", "Sat, 01 Jan 2000 00:00:00 GMT"),
    ] {
        let body = stream::poll_fn(
            |_| -> std::task::Poll<Option<Result<Bytes, std::io::Error>>> { panic!("it is read") },
        );
        let put = request(Method::PUT, &format!("{FILES}/f"))
            .header(header.0, header.1)
            // The body is sent only when it is asked for.
            .header("expect", "100-continue");
        let answer = app.send(put.body(Body::from_stream(body)).unwrap()).await;
        assert_eq!(code(&answer), "412 precondition_failed", "{header:?}");
    }
}
