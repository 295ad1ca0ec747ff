//! How clients learn where to log in.

use axum::http::Method;
use serde_json::json;

use super::World;
use crate::support::{TOKEN, TestApp};

const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

#[tokio::test]
async fn the_document_says_where_to_log_in_for_each_address() {
    let settings = [
        ("PUBLIC_BASE_URL", "https://box.example"),
        ("OAUTH_REQUIRED_SCOPE", "sandbox"),
        ("ALLOWED_HOSTS", "localhost"),
    ];
    let world = World::new(&settings).await;
    for address in ["/mcp", "/sse", "/mcp/sse", "/mcp/events"] {
        let path = format!("{WELL_KNOWN}{address}");
        let origin = [("origin", "https://anywhere.example")];
        let answer = world.ask_with("", Method::GET, &path, None, &origin).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("cache-control"), "public, max-age=3600");
        assert_eq!(
            answer.header("access-control-allow-origin"),
            "https://anywhere.example"
        );
        assert_eq!(
            answer.json(),
            json!({
                "resource": format!("https://box.example{address}"),
                "authorization_servers": [world.issuer.url],
                "bearer_methods_supported": ["header"],
                "resource_name": "mcp-code-sandbox",
                "resource_documentation": "https://box.example/docs",
                "scopes_supported": ["openid", "sandbox"],
            })
        );
    }
}

#[tokio::test]
async fn below_a_path_the_document_is_found_however_the_path_is_passed_on() {
    let settings = [
        ("PUBLIC_BASE_URL", "https://box.example/tools/p"),
        ("OAUTH_SCOPES", "none"),
    ];
    let world = World::new(&settings).await;
    for path in [
        format!("{WELL_KNOWN}/mcp"),
        format!("{WELL_KNOWN}/tools/p/mcp"),
        format!("/tools/p{WELL_KNOWN}/mcp"),
        format!("{WELL_KNOWN}/mcp/"),
    ] {
        let answer = world.ask("", Method::GET, &path, None).await;
        insta::allow_duplicates! {
            insta::assert_snapshot!(answer.text().replace(&world.issuer.url, "ISSUER"), @r#"{"resource":"https://box.example/tools/p/mcp","authorization_servers":["ISSUER"],"bearer_methods_supported":["header"],"resource_name":"mcp-code-sandbox","resource_documentation":"https://box.example/tools/p/docs"}"#);
        }
    }
    let answer = world.ask("", Method::POST, "/mcp", None).await;
    assert_eq!(
        answer.header("www-authenticate"),
        r#"Bearer resource_metadata="https://box.example/tools/p/.well-known/oauth-protected-resource/mcp""#
    );
}

#[tokio::test]
async fn the_address_where_clients_look_first_has_a_document_only_without_other_tokens() {
    let world = World::new(&[]).await;
    let answer = world.ask("", Method::GET, WELL_KNOWN, None).await;
    assert_eq!(answer.status, 404);
    assert_eq!(answer.json()["error"], "not_found");
    let world = World::new(&[("MCP_API_TOKEN", "")]).await;
    let answer = world.ask("", Method::GET, WELL_KNOWN, None).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json()["resource"], "http://localhost:8080/mcp");
}

#[tokio::test]
async fn a_request_without_a_token_is_told_where_to_log_in() {
    let world = World::new(&[]).await;
    let leading = |document: &str| {
        format!(
            r#"Bearer resource_metadata="http://localhost:8080/.well-known/oauth-protected-resource{document}", scope="openid""#
        )
    };
    for (method, path, challenge) in [
        (Method::POST, "/mcp", leading("/mcp")),
        (Method::GET, "/mcp", leading("/mcp")),
        (Method::GET, "/sse", leading("/sse")),
        (Method::GET, "/mcp/events", leading("/mcp/events")),
        (Method::POST, "/messages", leading("/sse")),
        (Method::POST, "/token/mcp", "Bearer".to_owned()),
        (Method::GET, "/api/v1/sessions", "Bearer".to_owned()),
    ] {
        let answer = world.ask("", method, path, None).await;
        assert_eq!(answer.status, 401, "{path}");
        assert_eq!(answer.header("www-authenticate"), challenge, "{path}");
        insta::allow_duplicates! {
            insta::assert_snapshot!(answer.text().replace(&world.issuer.url, "ISSUER"), @r#"{"error":{"code":"unauthorized","message":"the access token is missing: log in at ISSUER, and send the header `Authorization: Bearer <access token>`"}}"#);
        }
    }
}

#[tokio::test]
async fn a_request_with_a_bad_token_is_told_what_is_wrong_with_it() {
    let world = World::new(&[]).await;
    let answer = world.ask("opaque", Method::POST, "/mcp", None).await;
    assert_eq!(
        answer.header("www-authenticate"),
        "Bearer resource_metadata=\"http://localhost:8080/.well-known/oauth-protected-resource/mcp\", scope=\"openid\", \
         error=\"invalid_token\", error_description=\"the access token is none of this server's, and no JWT either\""
    );
    for path in ["/token/mcp", "/api/v1/sessions"] {
        let answer = world.ask("opaque", Method::POST, path, None).await;
        assert_eq!(
            (answer.status.as_u16(), answer.header("www-authenticate")),
            (401, "Bearer")
        );
    }
}

#[tokio::test]
async fn tokens_of_the_server_count_at_every_address() {
    let world = World::new(&[]).await;
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    for token in [TOKEN.to_owned(), world.issuer.token("anna")] {
        for path in ["/mcp", "/token/mcp", "/token/mcp/"] {
            let answer = world.ask(&token, Method::POST, path, Some(&ping)).await;
            assert_eq!(answer.text(), r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
        }
    }
}

#[tokio::test]
async fn a_server_that_takes_no_access_tokens_says_so_to_who_looks_for_a_place_to_log_in() {
    let app = TestApp::on_fake().await;
    for path in [
        WELL_KNOWN,
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-authorization-server",
        "/.well-known/openid-configuration/mcp",
        "/register",
        "/authorize",
        "/token",
    ] {
        let answer = app.get(path).await;
        assert_eq!(
            (answer.status.as_u16(), answer.header("cache-control")),
            (404, "no-store")
        );
        insta::allow_duplicates! {
            insta::assert_snapshot!(answer.text(), @r#"{"error":"not_found","error_description":"this server has no OAuth: send the header `Authorization: Bearer <MCP_API_TOKEN>`"}"#);
        }
    }
    let answer = app.get("/token/mcp").await;
    assert_eq!(
        (answer.status.as_u16(), &answer.json()["error"]["code"]),
        (404, &json!("no_such_route"))
    );
}
