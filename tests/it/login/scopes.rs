//! Logins with less than everything: what the pasted token lets its holder do, and what a client asks for.

use std::time::Duration;

use axum::http::Method;
use mcp_code_sandbox::access::TokenCommand;
use serde_json::{Value, json};

use super::{World, both};
use crate::support::wait::within;
use crate::support::{Answer, TOKEN};

impl World {
    /// The token of somebody who may do so much.
    async fn narrow(&self, scopes: &[&str]) -> String {
        let command = TokenCommand::New {
            tenant: "research".parse().unwrap(),
            name: scopes.join("-").parse().unwrap(),
            expires: None,
            scopes: scopes.iter().map(|scope| scope.parse().unwrap()).collect(),
        };
        let token = command.run(Some(&self.file)).unwrap();
        let is_taken = async || (self.ping(&token).await.0 == 200).then_some(());
        within(Duration::from_secs(20), "the token is taken", is_taken).await;
        token
    }

    /// Tokens for a client that asks for `scope`.
    async fn asked(&self, client: &str, token: &str, scope: &str) -> Answer {
        let sent = self.sent(client, token, &[("scope", scope)]).await;
        self.exchange(client, &sent[0].1, &[]).await
    }

    async fn call(&self, token: &str, tool: &str, arguments: Value) -> Answer {
        let authorization = format!("Bearer {token}");
        let headers = [
            ("content-type", "application/json"),
            ("authorization", authorization.as_str()),
        ];
        let params = json!({ "name": tool, "arguments": arguments });
        let message =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        self.send(Method::POST, "/mcp", &headers, message.to_string())
            .await
    }
}

#[tokio::test]
async fn a_client_gets_what_it_asks_for_and_the_pasted_token_has() {
    let world = World::new(&[]).await;
    let narrow = world.narrow(&["run", "files"]).await;
    let client = world.client().await;
    for (token, asked, granted) in [
        (TOKEN, "", "sandbox"),
        (TOKEN, "sandbox", "sandbox"),
        (TOKEN, "sandbox sandbox:all", "sandbox"),
        (TOKEN, "sandbox sandbox:run", "sandbox:run"),
        (&*narrow, "sandbox", "sandbox:run sandbox:files"),
        (&*narrow, "sandbox:files sandbox:network", "sandbox:files"),
    ] {
        let answer = world.asked(&client, token, asked).await;
        assert_eq!(answer.json()["scope"], granted, "{asked}");
        let (_, refresh) = both(&answer);
        let next = world.refresh(&client, &refresh).await;
        assert_eq!(next.json()["scope"], granted, "{asked}");
    }
}

#[tokio::test]
async fn a_login_is_asked_for_only_where_it_could_give_more() {
    let world = World::new(&[]).await;
    let narrow = world.narrow(&["run", "files"]).await;
    let client = world.client().await;
    let (access, _) = both(&world.asked(&client, &narrow, "sandbox:run").await);
    let run = json!({ "language": "shell", "code": "echo on" });
    let ran = world.call(&access, "run_code", run.clone()).await.json();
    assert_eq!(
        ran["result"]["structuredContent"]["stdout"], "on\n",
        "{ran}"
    );
    let files = json!({ "conversationId": "demo" });
    let answer = world.call(&access, "list_files", files).await;
    assert_eq!(answer.status, 403);
    insta::assert_snapshot!(answer.header("www-authenticate"), @r#"Bearer resource_metadata="http://localhost:8080/.well-known/oauth-protected-resource/mcp", scope="sandbox sandbox:run sandbox:files", error="insufficient_scope", error_description="this needs the scope sandbox:files, and the access token has sandbox:run: log in again and agree to it""#);
    // The pasted token lets nobody do this, and another login would change nothing.
    let packages = json!({ "language": "python", "packages": ["six"] });
    let answer = world.call(&access, "install_packages", packages).await;
    assert_eq!(
        (answer.status.as_u16(), answer.header("www-authenticate")),
        (200, "")
    );
    insta::assert_snapshot!(answer.json()["result"]["structuredContent"], @r#"{"success":false,"code":"forbidden_scope","message":"this needs the scope install, and the token has run: ask the server's operator for a token that has it"}"#);
}

#[tokio::test]
async fn a_token_that_gives_nothing_of_what_is_asked_lets_no_client_in() {
    let world = World::new(&[]).await;
    let narrow = world.narrow(&["run"]).await;
    let client = world.client().await;
    let visit = world
        .visit(World::address(&client, &[("scope", "sandbox:install")]))
        .await;
    let answer = world.paste(&visit, &narrow).await;
    assert_eq!(answer.status, 403);
    assert!(
        answer.text().contains("This token is too narrow"),
        "{}",
        answer.text()
    );
    // The page says what it asks for, and no more.
    let page = world.app.get(&visit.path).await;
    assert!(
        page.text().contains("lets you: install packages. Your"),
        "{}",
        page.text()
    );
    // And what is no scope here is told to the client.
    let path = World::address(&client, &[("scope", "sandbox:admin")]);
    let answer = world.app.get(&path).await;
    assert_eq!(answer.status, 303);
    insta::assert_snapshot!(answer.header("location"), @"http://localhost:4711/callback?error=invalid_scope&error_description=%60scope%60+names+none+that+there+is%3A+leave+it+out%2C+or+ask+for+sandbox%3Arun%2C+sandbox%3Afiles%2C+sandbox%3Ainstall+or+sandbox%3Anetwork&state=a+state&iss=http%3A%2F%2Flocalhost%3A8080");
}
