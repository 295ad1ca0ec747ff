//! How cells end that somebody ends, and those that wait behind them.

use mcp_code_sandbox::access::TokenCommand;

use super::*;

/// A connection to a kernel on which a cell has printed something and goes on. Returns the request's id, too.
async fn busy(notebook: &Notebook, kernel: &str) -> (Channels, String) {
    let mut channels = notebook.connect(kernel).await;
    let content = json!({ "code": "echo begun\nsleep 600", "stop_on_error": false });
    let id = channels.send("shell", "execute_request", &content).await;
    while channels.next().await.unwrap()["msg_type"] != "stream" {}
    (channels, id)
}

/// How cells were answered.
async fn statuses(channels: &mut Channels, ids: &[String]) -> Vec<Value> {
    let mut statuses = Vec::new();
    for id in ids {
        let messages = channels.until_idle(id).await;
        let is_reply = |message: &&Value| message["msg_type"] == "execute_reply";
        let reply = messages.iter().find(is_reply);
        statuses.push(reply.map_or(Value::Null, |reply| reply["content"]["status"].clone()));
    }
    statuses
}

#[tokio::test]
async fn no_cell_runs_after_its_kernel_was_deleted() {
    let notebook = notebook().await;
    let kernel = notebook.kernel("").await;
    let (mut channels, id) = busy(&notebook, &kernel).await;
    let mut ids = vec![id];
    for _ in 0..2 {
        let content = json!({ "code": "echo never > never.txt", "stop_on_error": false });
        ids.push(channels.send("shell", "execute_request", &content).await);
    }
    // Answered when the cells before it have come.
    let info = channels
        .send("shell", "kernel_info_request", &json!({}))
        .await;
    channels.until_idle(&info).await;
    assert_eq!(notebook.delete(&kernel).await, 204);
    let mut told = Vec::new();
    while let Some(message) = channels.next().await {
        if message["msg_type"] == "execute_reply" {
            told.push(format!(
                "{} {}",
                message["parent_header"]["msg_id"], message["content"]["status"]
            ));
        }
    }
    told.sort();
    let expected = ids.iter().zip(["error", "aborted", "aborted"]);
    let expected: Vec<_> = expected
        .map(|(id, status)| format!("\"{id}\" \"{status}\""))
        .collect();
    assert_eq!(told, expected);
    super::super::nothing_is_kept(&notebook.app).await;
}

#[tokio::test]
async fn a_kernel_is_deleted_while_its_failed_cell_ends() {
    let notebook = notebook().await;
    let kernel = notebook.kernel("").await;
    let (mut channels, first) = busy(&notebook, &kernel).await;
    let mut ids = vec![first];
    for _ in 0..3 {
        let content = json!({ "code": "nonsense" });
        ids.push(channels.send("shell", "execute_request", &content).await);
    }
    // Answered when the cells before it have come.
    let info = channels
        .send("shell", "kernel_info_request", &json!({}))
        .await;
    channels.until_idle(&info).await;
    let path = format!("/api/kernels/{kernel}/interrupt");
    let interrupt = notebook.ask(Method::POST, &path, &json!(null));
    let (_, deleted) = tokio::join!(interrupt, notebook.delete(&kernel));
    assert_eq!(deleted, 204);
    let mut replies = 0;
    while let Some(message) = channels.next().await {
        replies += usize::from(message["msg_type"] == "execute_reply");
    }
    assert_eq!(replies, ids.len());
}

#[tokio::test]
async fn an_interrupt_ends_the_cells_of_all_connections() {
    let notebook = notebook().await;
    let kernel = notebook.kernel("").await;
    let (mut first, id) = busy(&notebook, &kernel).await;
    let mut second = notebook.connect(&kernel).await;
    let content = json!({ "code": "sleep 600" });
    let other = second.send("shell", "execute_request", &content).await;
    while second.next().await.unwrap()["msg_type"] != "execute_input" {}
    let path = format!("/api/kernels/{kernel}/interrupt");
    let interrupted = notebook.ask(Method::POST, &path, &json!(null)).await;
    assert_eq!(interrupted.status.as_u16(), 204);
    assert_eq!(statuses(&mut first, &[id]).await, ["error"]);
    assert_eq!(statuses(&mut second, &[other]).await, ["error"]);
}

#[tokio::test]
async fn a_restart_needs_no_cell_to_take_effect() {
    let notebook = notebook().await;
    let kernel = notebook.kernel("").await;
    let mut channels = notebook.connect(&kernel).await;
    channels.run("X=set").await;
    let path = format!("/api/kernels/{kernel}/restart");
    notebook.ask(Method::POST, &path, &json!(null)).await;
    let refused = "#".repeat(2 << 20);
    assert!(channels.run(&refused).await.contains("SandboxError"));
    assert!(channels.run("echo [ $X ]").await.contains("[  ]"));
}

#[tokio::test]
async fn whoever_has_left_starts_no_further_cell() {
    let (_dir, file, theirs) = token_file("team", &["run"]);
    let notebook = notebook_with(&[("ACCESS_FILE", &file)]).await;
    let made = notebook
        .ask_as(&theirs, Method::POST, "/api/kernels", &json!({}))
        .await;
    let kernel = made.json()["id"].as_str().unwrap().to_owned();
    let mut channels = notebook.connect_as(&kernel, &theirs, &[]).await.unwrap();
    assert!(channels.run("echo there").await.contains("there"));
    let revoke = TokenCommand::Revoke {
        tenant: "team".parse().unwrap(),
        name: "dify".parse().unwrap(),
        id: None,
    };
    revoke.run(Some(std::path::Path::new(&file))).unwrap();
    let is_out = async || {
        let listed = notebook.ask_as(&theirs, Method::GET, "/api/kernels", &json!(null));
        listed.await.status.as_u16() == 401
    };
    until(is_out).await;
    channels
        .send("shell", "execute_request", &json!({ "code": "echo never" }))
        .await;
    assert_eq!(channels.next().await, None);
}

#[tokio::test]
async fn a_cell_whose_client_goes_away_is_ended() {
    let notebook = notebook().await;
    let kernel = notebook.kernel("").await;
    drop(busy(&notebook, &kernel).await);
    let path = format!("/api/kernels/{kernel}");
    let is_idle = async || {
        let state = notebook.ask(Method::GET, &path, &json!(null)).await.json();
        state["execution_state"] == "idle" && state["connections"] == 0
    };
    until(is_idle).await;
    let mut again = notebook.connect(&kernel).await;
    assert!(again.run("echo there").await.contains("there"));
}
