//! Runs that a client has named itself: they are its own, and not their call's.

use serde_json::{Value, json};

use crate::sse::{EventStream, post_sse, run};
use crate::support::{TestApp, eventually};

const ID: &str = "run_0123456789abcdef0123456789abcdef";

/// A call that says by which id its client will ask for the run.
fn named(code: &str, id: &Value) -> Value {
    let mut message = run(1, code);
    message["params"]["_meta"] = json!({ "progressToken": 1, "mcp-code-sandbox/run": id });
    message
}

async fn answer(app: &TestApp, message: &Value) -> Value {
    let mut stream = EventStream::open(app, post_sse(message)).await;
    let messages = stream.rest().await;
    messages.last().unwrap()["result"]["structuredContent"].clone()
}

#[tokio::test]
async fn a_named_run_goes_on_without_its_call() {
    let app = TestApp::on_fake().await;
    let call = named("echo begun\nsleep 1\necho ended", &json!(ID));
    let mut stream = EventStream::open(&app, post_sse(&call)).await;
    while stream.message().await["params"]["message"] != "begun\n" {}
    drop(stream);
    let asked = json!({ "runId": ID, "waitSeconds": 30 });
    let outcome = app.call("get_run", asked).await;
    assert_eq!(
        (&outcome["status"], &outcome["output"]),
        (&json!("ok"), &json!("begun\nended\n"))
    );
    // Whoever sends it again, not knowing that it had begun, does not run it twice.
    let again = answer(&app, &call).await;
    assert_eq!(again["code"], "invalid_arguments");
    assert_eq!(
        again["message"],
        "run_code: mcp-code-sandbox/run in _meta names a run that has begun already: ask for it with get_run, or give \
         a new id"
    );
}

#[tokio::test]
async fn a_named_run_is_ended_by_its_id() {
    let app = TestApp::on_fake().await;
    let call = named("echo begun\nsleep 25", &json!(ID));
    let mut stream = EventStream::open(&app, post_sse(&call)).await;
    while stream.message().await["params"]["message"] != "begun\n" {}
    drop(stream);
    let outcome = app.call("cancel_run", json!({ "runId": ID })).await;
    assert_eq!(outcome["status"], "cancelled");
    eventually("the container is gone", || {
        app.app.parts.launcher.live_count() == 0
    })
    .await;
}

#[tokio::test]
async fn a_name_is_like_the_ids_of_the_server() {
    let app = TestApp::on_fake().await;
    for id in [
        json!("run_1"),
        json!(ID.to_uppercase()),
        json!(1),
        json!(""),
    ] {
        let refused = answer(&app, &named("echo", &id)).await;
        assert_eq!(refused["code"], "invalid_arguments", "{id}");
        assert_eq!(
            refused["message"],
            "run_code: mcp-code-sandbox/run in _meta is no id of a run: give run_ and 32 random hexadecimal digits, in \
             lower case"
        );
    }
    assert_eq!(app.app.parts.gate.count(), 0);
}
