//! Access tokens with scopes of this server, and how their clients learn what to ask for.

use axum::http::Method;
use serde_json::{Value, json};

use super::World;
use crate::support::issuer::signed;

/// A token with these scopes.
fn with_scope(world: &World, scope: &str) -> String {
    let mut claims = world.issuer.claims("anna");
    claims["scope"] = scope.into();
    signed(&claims)
}

fn call(tool: &str, arguments: &Value) -> Value {
    let params = json!({ "name": tool, "arguments": arguments });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params })
}

#[tokio::test]
async fn a_token_without_our_scopes_lets_its_holder_do_everything() {
    let world = World::new(&[]).await;
    for scope in ["openid", "openid sandbox:all", "sandbox:run sandbox:files"] {
        let token = with_scope(&world, scope);
        let program = json!({ "language": "shell", "code": "echo on" });
        let outcome = world.call(&token, "run_code", program).await;
        assert_eq!(outcome["stdout"], "on\n", "{scope}: {outcome}");
        let list = json!({ "conversationId": "demo" });
        let listed = world.call(&token, "list_files", list).await;
        assert_eq!(listed["total"], 0, "{scope}: {listed}");
    }
}

#[tokio::test]
async fn a_client_is_told_which_scopes_to_ask_for() {
    let scopes = "openid sandbox:run sandbox:files sandbox:network";
    let world = World::new(&[("OAUTH_SCOPES", scopes)]).await;
    let token = with_scope(&world, "openid sandbox:run");
    let program = json!({ "language": "shell", "code": "echo", "network": true });
    let message = call("run_code", &program);
    let answer = world
        .ask(&token, Method::POST, "/mcp", Some(&message))
        .await;
    assert_eq!(answer.status, 403);
    insta::assert_snapshot!(answer.header("www-authenticate"), @r#"Bearer resource_metadata="http://localhost:8080/.well-known/oauth-protected-resource/mcp", scope="openid sandbox:run sandbox:network", error="insufficient_scope", error_description="this needs the scope sandbox:network, and the access token has sandbox:run: log in again and agree to it""#);
    insta::assert_snapshot!(answer.text(), @r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"this needs the scope sandbox:network, and the access token has sandbox:run: log in again and agree to it","data":{"code":"forbidden_scope"}}}"#);
    // In a session too, whose answers are streams.
    let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } } });
    let accept = ("accept", "application/json, text/event-stream");
    let hello = world
        .ask_with(&token, Method::POST, "/mcp", Some(&hello), &[accept])
        .await;
    let session = ("mcp-session-id", hello.header("mcp-session-id"));
    assert!(!session.1.is_empty());
    let message = call("list_files", &json!({ "conversationId": "demo" }));
    let answer = world
        .ask_with(
            &token,
            Method::POST,
            "/mcp",
            Some(&message),
            &[accept, session],
        )
        .await;
    assert_eq!(answer.status, 403);
    insta::assert_snapshot!(answer.header("www-authenticate"), @r#"Bearer resource_metadata="http://localhost:8080/.well-known/oauth-protected-resource/mcp", scope="openid sandbox:run sandbox:files", error="insufficient_scope", error_description="this needs the scope sandbox:files, and the access token has sandbox:run: log in again and agree to it""#);
    // REST clients do not log in by themselves.
    let answer = world
        .ask(
            &token,
            Method::GET,
            "/api/v1/conversations/demo/files",
            None,
        )
        .await;
    assert_eq!(
        (answer.status.as_u16(), answer.header("www-authenticate")),
        (403, "Bearer")
    );
    insta::assert_snapshot!(answer.text(), @r#"{"error":{"code":"forbidden_scope","message":"this needs the scope sandbox:files, and the access token has sandbox:run: log in again and agree to it"}}"#);
}

#[tokio::test]
async fn scopes_are_those_of_the_token_and_not_of_its_subject() {
    let world = World::new(&[("OAUTH_SCOPES", "sandbox:run sandbox:files")]).await;
    let program = json!({ "language": "shell", "code": "echo on" });
    for (scope, status) in [
        ("sandbox:files", 403),
        ("sandbox:run", 200),
        ("sandbox:files", 403),
    ] {
        let token = with_scope(&world, scope);
        let message = call("run_code", &program);
        // The second time it is known already.
        for _ in 0..2 {
            let answer = world
                .ask(&token, Method::POST, "/mcp", Some(&message))
                .await;
            assert_eq!(answer.status, status, "{scope}: {}", answer.text());
        }
    }
}

#[tokio::test]
async fn a_token_without_our_scopes_does_nothing_where_clients_are_told_to_ask_for_some() {
    let program = json!({ "language": "shell", "code": "echo on" });
    let message = call("run_code", &program);
    for (setting, token_scope) in [
        ("OAUTH_SCOPES", "openid sandbox:run"),
        ("OAUTH_REQUIRED_SCOPE", "sandbox:run"),
    ] {
        let world = World::new(&[(setting, token_scope)]).await;
        let token = with_scope(&world, "openid");
        let answer = world
            .ask(&token, Method::POST, "/mcp", Some(&message))
            .await;
        assert_eq!(answer.status, 403, "{setting}: {}", answer.text());
        let token = with_scope(&world, token_scope);
        let outcome = world.call(&token, "run_code", program.clone()).await;
        assert_eq!(outcome["stdout"], "on\n", "{setting}: {outcome}");
    }
}

#[tokio::test]
async fn nobody_is_asked_to_log_in_for_what_clients_are_not_told_to_ask_for() {
    let world = World::new(&[("OAUTH_SCOPES", "sandbox:run sandbox:files")]).await;
    let token = with_scope(&world, "sandbox:run");
    let files = call("list_files", &json!({ "conversationId": "demo" }));
    let packages = call(
        "install_packages",
        &json!({ "language": "shell", "packages": ["six"] }),
    );
    for (path, message, status) in [
        ("/mcp", &files, 403),
        ("/mcp", &packages, 200),
        // Where clients are not to log in at all.
        ("/token/mcp", &files, 200),
    ] {
        let answer = world.ask(&token, Method::POST, path, Some(message)).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
        assert!(
            answer.text().contains("forbidden_scope"),
            "{}",
            answer.text()
        );
    }
}

#[tokio::test]
async fn what_a_user_may_do_counts_only_where_the_client_asked_for_nothing_of_it() {
    let world = World::new(&[]).await;
    let list = json!({ "conversationId": "demo" });
    for (scope, is_forbidden) in [("openid sandbox:run", true), ("openid", false)] {
        let mut claims = world.issuer.claims("anna");
        claims["scope"] = scope.into();
        claims["permissions"] = json!(["sandbox:files"]);
        let outcome = world
            .call(&signed(&claims), "list_files", list.clone())
            .await;
        assert_eq!(
            outcome["code"] == "forbidden_scope",
            is_forbidden,
            "{scope}: {outcome}"
        );
    }
}
