//! Who may call: token, Host, Origin, CORS; and the routes that need none.

use axum::body::Body;
use axum::http::{Method, Request};

use crate::support::{TestApp, get, post};

#[tokio::test]
async fn a_missing_or_wrong_token_is_refused() {
    let app = TestApp::on_fake().await;
    for authorization in [
        "",
        "Bearer wrong",
        "Basic 7f3a9c51e8d24b60a1f7c3d9",
        "Bearer",
    ] {
        let request = Request::post("/mcp")
            .header("host", "localhost")
            .header("authorization", authorization);
        let answer = app.send(request.body(Body::from("{}")).unwrap()).await;
        assert_eq!(
            (answer.status.as_u16(), answer.header("www-authenticate")),
            (401, "Bearer")
        );
        insta::allow_duplicates! {
            insta::assert_snapshot!(answer.text(), @r#"{"error":{"code":"unauthorized","message":"the bearer token is missing or wrong: send the header `Authorization: Bearer <MCP_API_TOKEN>`"}}"#);
        }
    }
}

#[tokio::test]
async fn foreign_hosts_and_origins_are_refused_on_every_route() {
    let app = TestApp::on_fake().await;
    for path in ["/", "/mcp", "/files/x/y", "/healthz", "/nothing"] {
        let request = Request::get(path).header("host", "rebound.example");
        assert_eq!(
            app.send(request.body(Body::empty()).unwrap()).await.status,
            403,
            "{path}"
        );
        let request = get(path).header("origin", "http://evil.example");
        assert_eq!(
            app.send(request.body(Body::empty()).unwrap()).await.status,
            403,
            "{path}"
        );
    }
    let request = post().header("origin", "http://localhost:8080");
    let answer = app
        .send(
            request
                .body(Body::from(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#))
                .unwrap(),
        )
        .await;
    assert_eq!(answer.text(), r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
}

#[tokio::test]
async fn hosts_and_origins_are_known_as_clients_write_them() {
    let app = TestApp::on_fake_with(&[
        ("ALLOWED_HOSTS", "[FD00::1], bücher.example"),
        (
            "ALLOWED_ORIGINS",
            "https://Box.example:443/,http://localhost:*",
        ),
    ])
    .await;
    for host in ["[fd00::1]:8080", "[fd00::1]", "xn--bcher-kva.example"] {
        let request = Request::get("/healthz").header("host", host);
        let answer = app.send(request.body(Body::empty()).unwrap()).await;
        assert_eq!(answer.status, 200, "{host}");
    }
    for (origin, status) in [
        ("https://box.example", 200),
        ("http://localhost:5173", 200),
        ("https://box.example:8443", 403),
    ] {
        let request = get("/healthz").header("origin", origin);
        let answer = app.send(request.body(Body::empty()).unwrap()).await;
        assert_eq!(answer.status, status, "{origin}");
    }
}

#[tokio::test]
async fn the_one_address_that_the_server_is_at_is_its_name() {
    for (address, own) in [
        ("127.0.0.2:8080", "127.0.0.2:8080"),
        ("10.0.0.7:8080", "10.0.0.7:8080"),
        ("127.0.0.1:8080", "localhost:8080"),
        ("[::1]:8080", "localhost:8080"),
        ("0.0.0.0:8080", "localhost:8080"),
    ] {
        let app = TestApp::on_fake_with(&[("MCP_HTTP_ADDR", address)]).await;
        let stored = app.upload("a.txt", b"a").await;
        let url = stored["file"]["url"].as_str().unwrap();
        assert!(url.starts_with(&format!("http://{own}/files/")), "{url}");
        let request = Request::get("/healthz").header("host", own);
        let answer = app.send(request.body(Body::empty()).unwrap()).await;
        assert_eq!(answer.status, 200, "{address}");
    }
}

#[tokio::test]
async fn the_servers_own_pages_may_call_whatever_way_its_address_is_written() {
    for (address, host, origin) in [
        (
            "https://box.example:443/tools",
            "box.example",
            "https://box.example",
        ),
        ("http://Box.example:80", "box.example", "http://box.example"),
        (
            "http://[FD00::1]:9000",
            "[fd00::1]:9000",
            "http://[fd00::1]:9000",
        ),
    ] {
        // With and without others that are allowed.
        let others = [
            ("ALLOWED_HOSTS", "other.example"),
            ("ALLOWED_ORIGINS", "https://other.example"),
        ];
        for others in [&others[..], &[]] {
            let settings = [&[("PUBLIC_BASE_URL", address)], others].concat();
            let app = TestApp::on_fake_with(&settings).await;
            let request = Request::get("/healthz")
                .header("host", host)
                .header("origin", origin);
            let answer = app.send(request.body(Body::empty()).unwrap()).await;
            assert_eq!(answer.status, 200, "{address}: {}", answer.text());
            assert_eq!(answer.header("access-control-allow-origin"), origin);
        }
    }
}

/// The page, opened under any name that the server has.
#[tokio::test]
async fn a_page_may_call_whom_it_came_from() {
    let app = TestApp::on_fake_with(&[
        ("ALLOWED_HOSTS", "box.lan"),
        ("ALLOWED_ORIGINS", "https://other.example"),
    ])
    .await;
    let anybody = TestApp::on_fake_with(&[("ALLOWED_HOSTS", "*")]).await;
    for (app, host, origin, status) in [
        (&app, "box.lan:8080", "http://box.lan:8080", 200),
        (&app, "BOX.lan", "https://box.lan", 200),
        (&app, "localhost:8080", "http://localhost:8080", 200),
        (&app, "box.lan:8080", "http://box.lan:3000", 403),
        (&app, "box.lan", "null", 403),
        // A rebound name has a page of its own too.
        (&anybody, "rebound.example", "http://rebound.example", 403),
    ] {
        let request = Request::get("/healthz")
            .header("host", host)
            .header("origin", origin);
        let answer = app.send(request.body(Body::empty()).unwrap()).await;
        assert_eq!(answer.status, status, "{host} {origin}");
    }
}

#[tokio::test]
async fn pages_of_allowed_origins_may_ask_first() {
    let app = TestApp::on_fake_with(&[("ALLOWED_ORIGINS", "https://chat.example")]).await;
    let request = get("/mcp")
        .method(Method::OPTIONS)
        .header("origin", "https://chat.example")
        .header("access-control-request-method", "POST")
        .header(
            "access-control-request-headers",
            "authorization,content-type,mcp-session-id",
        );
    let answer = app.send(request.body(Body::empty()).unwrap()).await;
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.header("access-control-allow-origin"),
        "https://chat.example"
    );
    insta::assert_snapshot!(answer.header("access-control-allow-headers"), @"authorization,content-type,accept,if-match,if-none-match,if-unmodified-since,range,mcp-session-id,mcp-protocol-version,mcp-method,mcp-name,last-event-id");
    // They may also read the answer.
    let request = get("/healthz").header("origin", "https://chat.example");
    let answer = app.send(request.body(Body::empty()).unwrap()).await;
    insta::assert_snapshot!(answer.header("access-control-expose-headers"), @"mcp-session-id,www-authenticate,retry-after,content-range");
}

#[tokio::test]
async fn health_needs_no_token() {
    let app = TestApp::on_fake().await;
    assert_eq!(app.get("/healthz").await.text(), r#"{"status":"ok"}"#);
    assert_eq!(
        app.get("/readyz").await.text(),
        r#"{"status":"ok","runners":["shell"]}"#
    );
    assert_eq!(
        app.get("/health").await.text(),
        r#"{"status":"ok","runners":["shell"]}"#
    );
    let page = app.get("/").await;
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
    assert!(
        page.header("content-security-policy")
            .starts_with("default-src 'none'")
    );
}
