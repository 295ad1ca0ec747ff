//! What becomes of callers when their tokens are replaced, revoked or wrong.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request};
use mcp_code_sandbox::access::TokenCommand;
use serde_json::json;

use super::{Tenants, new_token};
use crate::sse::EventStream;
use crate::support::{TOKEN, eventually};

#[tokio::test]
async fn a_token_is_replaced_in_the_middle_of_a_session_and_then_revoked() {
    let tenants = Tenants::new(&[("CALL_BUDGET", "300ms")]).await;
    let (first, second) = (
        &tenants.tokens[1],
        new_token(&tenants.file, "research", "n8n"),
    );
    let running = tenants.run(first, "sleep 1\necho done").await;
    let until = async |token: &str, status: u16| {
        loop {
            let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
            let answer = tenants.ask(token, Method::POST, "/mcp", Some(&ping)).await;
            if answer.status == status {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    until(&second, 200).await;
    let asked = json!({ "runId": running["runId"], "waitSeconds": 20 });
    assert_eq!(
        tenants.call(&second, "get_run", asked).await["stdout"],
        "done\n"
    );
    let listed = TokenCommand::List.run(Some(&tenants.file)).unwrap();
    let rows: Vec<Vec<&str>> = listed
        .lines()
        .map(|row| row.split_whitespace().collect())
        .collect();
    let mut of_research = rows
        .iter()
        .filter(|row| row[0] == "research")
        .map(|row| row[2]);
    // Which of the two is the first is known by what is refused afterwards.
    let revoke = TokenCommand::Revoke {
        tenant: "research".parse().unwrap(),
        name: "n8n".parse().unwrap(),
        id: of_research.next_back().map(str::to_owned),
    };
    revoke.run(Some(&tenants.file)).unwrap();
    let refused = tokio::select! {
        refused = until(first, 401) => refused,
        refused = until(&second, 401) => refused,
    };
    assert_eq!(refused.header("www-authenticate"), "Bearer");
    insta::assert_snapshot!(refused.text(), @r#"{"error":{"code":"unauthorized","message":"the bearer token is missing or wrong: send the header `Authorization: Bearer <token>`"}}"#);
}

#[tokio::test]
async fn what_a_caller_began_ends_with_its_last_token() {
    let tenants = Tenants::new(&[("CALL_BUDGET", "100ms")]).await;
    let [_, research, sales] = &tenants.tokens;
    let mut shown = Vec::new();
    for token in [research, sales] {
        shown.push(tenants.shown_to(token).await);
    }
    let open = async |token: &str, path: &str, session: &str| {
        let request = Request::get(path)
            .header("host", "localhost:8080")
            .header("authorization", format!("Bearer {token}"))
            .header("accept", "text/event-stream")
            .header("mcp-session-id", session);
        EventStream::open(&tenants.app, request.body(Body::empty()).unwrap()).await
    };
    let mut stream = open(research, "/mcp", &shown[0].session).await;
    let mut legacy = open(research, "/sse", "").await;
    assert_eq!((stream.status.as_u16(), legacy.status.as_u16()), (200, 200));
    assert_eq!(legacy.next().await.unwrap().name, "endpoint");
    let gate = &tenants.app.app.parts.gate;
    assert_eq!(gate.count(), 2);
    let revoke = TokenCommand::Revoke {
        tenant: "research".parse().unwrap(),
        name: "n8n".parse().unwrap(),
        id: None,
    };
    revoke.run(Some(&tenants.file)).unwrap();
    assert!(stream.next().await.is_none() && legacy.next().await.is_none());
    eventually("its run has ended", || gate.count() == 1).await;
    // With another token of that name the caller is back, and finds how its run ended.
    let again = new_token(&tenants.file, "research", "n8n");
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    while tenants
        .ask(&again, Method::POST, "/mcp", Some(&ping))
        .await
        .status
        != 200
    {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let state = json!({ "runId": shown[0].run });
    let state = tenants.call(&again, "get_run", state).await;
    assert_eq!(state["status"], "cancelled", "{state}");
    let state = json!({ "runId": shown[1].run, "waitSeconds": 0 });
    let state = tenants.call(sales, "get_run", state).await;
    assert_eq!(state["status"], "running", "{state}");
    let cancel = json!({ "runId": shown[1].run });
    tenants.call(sales, "cancel_run", cancel).await;
    eventually("no run is left", || gate.count() == 0).await;
}

#[tokio::test]
async fn bad_tokens_are_refused_whatever_is_wrong_with_them() {
    let tenants = Tenants::new(&[]).await;
    let good = &tenants.tokens[1];
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    assert_eq!(
        tenants
            .ask(good, Method::POST, "/mcp", Some(&ping))
            .await
            .status,
        200
    );
    let hash = sha256(good);
    let bad = [
        String::new(),
        "mcs_".to_owned(),
        good[4..].to_owned(),
        good.to_lowercase(),
        format!("{good}x"),
        good[..good.len() - 1].to_owned(),
        hash.clone(),
        format!("sha256:{hash}"),
        format!("{good},{good}"),
        format!("{TOKEN}{good}"),
        TOKEN[1..].to_owned(),
        "x".repeat(100_000),
    ];
    for token in bad {
        let answer = tenants.ask(&token, Method::POST, "/mcp", Some(&ping)).await;
        assert_eq!(answer.status, 401, "{token}");
        let answer = tenants
            .ask(&token, Method::GET, "/api/v1/sessions", None)
            .await;
        assert_eq!(answer.status, 401, "{token}");
    }
}

fn sha256(text: &str) -> String {
    use sha2::Digest as _;
    hex::encode(sha2::Sha256::digest(text))
}
