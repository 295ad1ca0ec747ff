//! What a program is given to read from its standard input.

use axum::http::Method;
use serde_json::{Value, json};

use crate::support::{TestApp, eventually};

/// A call with a text for the program, of conversation `demo`.
fn reading(stdin: &str, more: &Value) -> Value {
    let mut arguments = json!({
        "conversationId": "demo", "language": "shell", "code": "cat", "stdin": stdin,
    });
    let more = more.as_object().unwrap().clone();
    arguments.as_object_mut().unwrap().extend(more);
    arguments
}

#[tokio::test]
async fn a_program_reads_what_its_call_brings() {
    let app = TestApp::on_fake_with_notebook(&[]).await;
    for (arguments, printed) in [
        (reading("1\nzwei é\n", &json!({})), "1\nzwei é\n"),
        (reading("", &json!({})), ""),
        (
            reading(&"x".repeat(1 << 20), &json!({ "code": "echo unread" })),
            "unread\n",
        ),
        (reading("5", &json!({ "stdin": 5 })), "5"),
        (
            json!({ "conversationId": "demo", "language": "shell", "code": "cat", "standard_input": "a" }),
            "a",
        ),
        (
            reading("cell", &json!({ "language": "notebook", "stateful": true })),
            "cell",
        ),
        (
            json!({ "conversationId": "demo", "language": "notebook", "code": "cat", "stateful": true }),
            "",
        ),
    ] {
        let outcome = app.call("run_code", arguments).await;
        assert_eq!(outcome["stdout"], printed, "{outcome}");
    }
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn the_rest_interface_takes_it_too() {
    let app = TestApp::on_fake_speaking(&["python"], &[]).await;
    for (path, printed) in [
        ("/api/v1/execute_sync", "/data/result/stdout"),
        ("/execute", "/stdout"),
    ] {
        let body = json!({ "code": "cat", "stdin": "asked for\n" });
        let answer = app.rest(Method::POST, path, &body).await.json();
        assert_eq!(
            answer.pointer(printed),
            Some(&json!("asked for\n")),
            "{answer}"
        );
    }
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn unavailable_stdin_is_refused() {
    let app = TestApp::on_fake_with_notebook(&[]).await;
    let fake = app.fake.as_ref().unwrap();
    fake.label("notebook", "sandbox.stdin", "programs");
    fake.add_image("older", "", 1);
    fake.label("older", "sandbox.stdin", "");
    eventually("the images are seen", || {
        app.app.parts.gate.catalog.view().find("older").is_some()
    })
    .await;
    let mut told = Vec::new();
    for arguments in [
        reading(&"x".repeat((1 << 20) + 1), &json!({})),
        reading("1", &json!({ "language": "notebook", "stateful": true })),
        reading("1", &json!({ "language": "older" })),
    ] {
        let refused = app.call("run_code", arguments).await;
        told.push(format!("{} {}", refused["code"], refused["message"]));
    }
    insta::assert_snapshot!(told.join("\n"), @r#"
    "invalid_arguments" "stdin has 1048577 bytes, the limit is 1048576: upload it as a file and read that from /data"
    "invalid_arguments" "stdin is not available for notebook with stateful: true: leave one of them out"
    "invalid_arguments" "stdin is not available for older here: upload a file, or write the values into code"
    "#);
    app.assert_nothing_is_left().await;
}
