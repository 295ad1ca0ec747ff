//! Runs as tasks, for clients that support them.

use mcp_code_sandbox::gate::proof::ProofState;
use serde_json::{Value, json};

use crate::sse::newest;
use crate::support::{TestApp, eventually};

#[tokio::test]
async fn a_client_that_supports_tasks_gets_a_run_as_one() {
    let app = TestApp::on_fake_with(&[("CALL_BUDGET", "100ms")]).await;
    let send = async |method: &str, name: &str, params: Value| {
        let answer = app.send(newest(method, Some(name), params)).await;
        answer.json()["result"].clone()
    };
    let start = async |code: &str| {
        let arguments = json!({ "conversationId": "demo", "language": "shell", "timeoutSeconds": 60, "code": code });
        let params = json!({ "name": "run_code", "arguments": arguments });
        let task = send("tools/call", "run_code", params).await;
        assert_eq!(
            (&task["resultType"], &task["status"]),
            (&json!("task"), &json!("working")),
            "{task}"
        );
        task["taskId"].as_str().unwrap().to_owned()
    };
    let get = async |id: &str| send("tasks/get", id, json!({ "taskId": id })).await;
    let cancel = async |id: &str| send("tasks/cancel", id, json!({ "taskId": id })).await;
    let ended = async |id: &str| loop {
        let state = get(id).await;
        if state["status"] != "working" {
            return state;
        }
    };
    let id = start("sleep 0.4\necho done").await;
    let waited = app
        .call("get_run", json!({ "runId": id, "waitSeconds": 5 }))
        .await;
    assert!(["ok", "running"].contains(&waited["status"].as_str().unwrap()));
    let state = ended(&id).await;
    assert_eq!(
        state["result"]["structuredContent"]["stdout"], "done\n",
        "{state}"
    );
    // One that has ended stays as it is.
    cancel(&id).await;
    assert_eq!(get(&id).await["status"], "completed");
    let id = start("sleep 20").await;
    cancel(&id).await;
    eventually("the container is gone", || {
        app.app.parts.launcher.live_count() == 0
    })
    .await;
    assert_eq!(ended(&id).await["status"], "cancelled");
    // And one that was refused keeps the reason.
    app.app.parts.gate.proof.set(ProofState::Pending);
    let id = start("echo").await;
    app.app.parts.gate.proof.set(ProofState::Broken(Vec::new()));
    ended(&id).await;
    cancel(&id).await;
    let still = get(&id).await;
    let code = &still["result"]["structuredContent"]["code"];
    assert_eq!(code, "sandbox_not_proven", "{still}");
}
