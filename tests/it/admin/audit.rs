//! The end of the audit log.

use axum::http::Method;
use serde_json::{Value, json};

use super::{ADMIN_TOKEN, Administered, ask};
use crate::support::TestApp;
use crate::support::wait::within;

fn numbers(answer: &Value) -> Vec<u64> {
    let events = answer["events"].as_array().unwrap().iter();
    events.map(|event| event["seq"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn lines_are_read_on_from_any_number() {
    let it = Administered::new().await;
    for number in 0..6 {
        it.app.upload(&format!("{number}.txt"), b"x").await;
    }
    // Started, first use, and the files.
    let last = async || {
        let answer = it.get("/admin/v1/audit?limit=1").await;
        (answer["next"] == 8).then_some(answer)
    };
    let answer = within(std::time::Duration::from_secs(10), "all is written", last).await;
    assert_eq!(
        (numbers(&answer), &answer["more"]),
        (vec![8], &json!(false))
    );
    assert_eq!(answer["events"][0]["event"], "file_uploaded");
    assert_eq!(answer["events"][0]["name"], "5.txt");
    let answer = it.get("/admin/v1/audit?after=2&limit=3").await;
    assert_eq!(
        (numbers(&answer), &answer["next"], &answer["more"]),
        (vec![3, 4, 5], &json!(5), &json!(true))
    );
    let answer = it.get("/admin/v1/audit?after=5").await;
    assert_eq!(
        (numbers(&answer), &answer["more"]),
        (vec![6, 7, 8], &json!(false))
    );
    let answer = it.get("/admin/v1/audit?after=8").await;
    assert_eq!(answer, json!({ "events": [], "next": 8, "more": false }));
    assert_eq!(numbers(&it.get("/admin/v1/audit").await).len(), 8);
    it.app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn without_a_file_it_is_said_that_there_is_none() {
    let app = TestApp::on_fake_with(&[("ADMIN_TOKEN", ADMIN_TOKEN)]).await;
    let answer = ask(&app, ADMIN_TOKEN, Method::GET, "/admin/v1/audit").await;
    assert_eq!(answer.status, 404);
    insta::assert_snapshot!(answer.text(), @r#"{"error":{"code":"no_audit_log","message":"AUDIT_LOG names no file: the operator can set it, such as AUDIT_LOG=/var/log/mcp-code-sandbox/audit.log"}}"#);
}
