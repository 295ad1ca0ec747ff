//! Values as models write them, and what is said of those that have two meanings or none: whole answers.

use axum::body::Body;
use axum::http::Method;
use serde_json::{Value, json};

use crate::support::{TestApp, post, stable};

/// What a tool says to each of these arguments.
async fn said(app: &TestApp, tool: &str, all: &[Value]) -> String {
    let mut said = Vec::new();
    for arguments in all {
        let answer = app.call(tool, arguments.clone()).await;
        let code = &answer["code"];
        let message = answer["message"].as_str().unwrap_or_default();
        said.push(format!("{arguments}\n  {code}: {message}"));
    }
    said.join("\n")
}

/// The same for arguments that are added to a program.
async fn said_of_run(app: &TestApp, all: &[Value]) -> String {
    let mut said = Vec::new();
    for more in all {
        let mut arguments = json!({ "language": "shell", "code": "echo $A $B" });
        let more = more.as_object().unwrap().clone();
        arguments.as_object_mut().unwrap().extend(more.clone());
        let answer = app.call("run_code", arguments).await;
        let text = answer["output"].as_str().or(answer["message"].as_str());
        said.push(format!("{}\n  {}", json!(more), text.unwrap().trim_end()));
    }
    said.join("\n")
}

/// The answer to a call whose parameters are written as they are here.
async fn answer_to(app: &TestApp, params: &str) -> Value {
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
    app.send(post().body(Body::from(body)).unwrap())
        .await
        .json()
}

#[tokio::test]
async fn a_key_that_is_there_twice_is_named() {
    let app = TestApp::on_fake().await;
    let call = |arguments: &str| format!(r#"{{"name":"run_code","arguments":{arguments}}}"#);
    let mut seen = Vec::new();
    for arguments in [
        r#"{"language":"shell","code":"echo 1","code":"echo 2"}"#,
        r#"{"language":"shell","code":"echo $A","environment":{"A":"1","A":"2"}}"#,
        r#""{\"language\":\"shell\",\"code\":\"echo 1\",\"code\":\"echo 2\"}""#,
        r#"{"language":"shell","code":"echo $A","environment":"{\"A\":\"1\",\"A\":\"2\"}"}"#,
        r#"{"language":"shell","code":"echo $A","environment":["A=1","A=2"]}"#,
        r#"{"language":"shell","code":"echo $A","environment":"A=1\nA=2"}"#,
    ] {
        let answer = answer_to(&app, &call(arguments)).await;
        let error = &answer["error"];
        let result = &answer["result"]["structuredContent"];
        seen.push(format!("{arguments}\n  {error} {result}"));
    }
    insta::assert_snapshot!(seen.join("\n"));
}

#[tokio::test]
async fn arguments_that_are_no_object_are_explained() {
    let app = TestApp::on_fake().await;
    let program = json!({ "language": "shell", "code": "echo on" });
    let twice = json!(json!(program.to_string()).to_string());
    for arguments in [
        json!([program]),
        json!(json!([program]).to_string()),
        twice,
        json!("{'language': 'shell', 'code': 'echo on', 'stateful': False, 'environment': None}"),
    ] {
        let answer = app.call("run_code", arguments.clone()).await;
        assert_eq!(answer["output"], "on\n", "{arguments}");
    }
    let params = json!({ "name": "run_code", "arguments": program, "_meta": [] });
    let answer = app.rpc("tools/call", params).await;
    assert_eq!(answer["result"]["structuredContent"]["output"], "on\n");
    let mut seen = Vec::new();
    for arguments in [
        json!([{}, {}]),
        json!(["echo"]),
        json!("echo"),
        json!(7),
        json!(false),
    ] {
        let params = json!({ "name": "run_code", "arguments": arguments });
        seen.push(app.rpc("tools/call", params).await.to_string());
    }
    insta::assert_snapshot!(seen.join("\n"));
}

#[tokio::test]
async fn an_environment_is_written_in_many_ways() {
    let app = TestApp::on_fake().await;
    let all = [
        json!({ "environment": "A=1" }),
        json!({ "environment": "# of the test\nexport A=1\n\nB=x=y\r\n" }),
        json!({ "environment": "{'A': True, 'B': 1.5}" }),
        json!({ "environment": "\"{\\\"A\\\": \\\"twice\\\"}\"" }),
        json!({ "environment": [{ "key": "A", "value": "1" }, "B=2"] }),
        json!({ "environment": "A=1, B=2" }),
        json!({ "environment": "A=\"1\"" }),
        json!({ "environment": "A=1 # one" }),
        json!({ "environment": "A" }),
        json!({ "environment": ["A=1", "B"] }),
        json!({ "environment": ["A=1", { "name": "B" }] }),
        json!({ "environment": { "A": "1", "B": ["2"] } }),
        json!({ "environment": "{'A': None}" }),
        json!({ "environment": { "A-B": "1" } }),
        json!({ "environment": 7 }),
    ];
    insta::assert_snapshot!(said_of_run(&app, &all).await);
}

#[tokio::test]
async fn packages_are_written_in_many_ways() {
    let app = TestApp::on_fake_speaking(&["python"], &[]).await;
    // Each is refused for what comes last, so all before it was understood.
    let all = [
        json!(["numpy, http://six"]),
        json!(["numpy", "", " ", "http://six"]),
        json!({ "numpy": "1.17.0", "http://six": "1" }),
        json!({ "numpy": "latest", "pandas": "*", "six": "", "http://six": null }),
        json!([{ "name": "numpy", "version": "latest" }, "http://six"]),
        json!("['numpy', 'http://six']"),
        json!(""),
        json!([]),
        json!([""]),
        json!({ "numpy": 1.1 }),
        json!({ "numpy": "1.0 or so" }),
        json!(7),
    ];
    let all = all.map(|packages| json!({ "language": "python", "packages": packages }));
    insta::assert_snapshot!(said(&app, "install_packages", &all).await);
}

#[tokio::test(start_paused = true)]
async fn flags_and_times_are_written_in_many_ways() {
    let app = TestApp::on_fake_with_notebook(&[]).await;
    let keeps = async |stateful: Value| {
        let run = json!({ "language": "notebook", "code": "X=1", "stateful": stateful });
        let id = app.call("run_code", run).await["conversationId"].take();
        let run = json!({ "language": "notebook", "code": "echo $X", "stateful": true, "conversationId": id });
        app.call("run_code", run).await["output"] == "1\n"
    };
    for yes in [json!("y"), json!("ON"), json!(1.0), json!("1")] {
        assert!(keeps(yes.clone()).await, "{yes}");
    }
    for no in [json!("n"), json!("off"), json!(0), json!(0.0)] {
        assert!(!keeps(no.clone()).await, "{no}");
    }
    for time in ["2 SEC", "2S", "2 Seconds", "2000 MS"] {
        let run = json!({ "language": "shell", "code": "sleep 60", "timeoutSeconds": time });
        let answer = app.call("run_code", run).await;
        let hint = answer["hint"].as_str().unwrap();
        assert!(hint.contains("its time limit of 2 s"), "{time} {hint}");
    }
}

#[tokio::test]
async fn messages_name_the_arguments_of_the_tool() {
    let artifacts = TestApp::on_fake_speaking(
        &["python"],
        &[("MCP_TOOLSET", "artifacts"), ("MAX_UPLOAD_BYTES", "16")],
    )
    .await;
    let file = |name: &str, content: &str| json!({ "session_id": "s", "filename": name, "content_base64": content });
    artifacts
        .call("sandbox_upload_file", file("f", "eA=="))
        .await;
    let mut seen = vec![
        said(
            &artifacts,
            "sandbox_upload_file",
            &[
                file("f", "eA=="),
                file("g", "???"),
                file("g", "data:,x"),
                file("g", "eHh4eHh4eHh4eHh4eHh4eHh4"),
                file("f/g", "eA=="),
                file("/etc/g", "eA=="),
                file("~/g", "eA=="),
                file("a/../g", "eA=="),
            ],
        )
        .await,
    ];
    let read = |path: &str| json!({ "session_id": "s", "path": path });
    let paths = [
        "",
        "/mnt/data/no",
        "conversation",
        "/mnt/data/../f",
        "~/f",
        "a//",
        "f/g",
    ]
    .map(read);
    seen.push(said(&artifacts, "sandbox_read_artifact", &paths).await);
    let lists = [
        json!({ "session_id": "s", "cursor": "x" }),
        json!({ "session_id": "" }),
        json!({ "session_id": "a b" }),
    ];
    seen.push(said(&artifacts, "sandbox_list_artifacts", &lists).await);
    seen.push(said(&artifacts, "sandbox_close_session", &lists[1..]).await);
    let runs = [
        json!({ "code": "```javascript\n1\n```" }),
        json!({ "code": "echo", "session_id": "a b" }),
        json!({ "code": "echo", "language": "javascript" }),
        json!({ "code": "echo", "timeout_ms": 5 }),
        json!({ "code": "echo", "timeout": 1e9 }),
    ];
    seen.push(said(&artifacts, "sandbox_run_python", &runs).await);
    let python =
        TestApp::on_fake_speaking(&["python", "typescript"], &[("MCP_TOOLSET", "python")]).await;
    let runs = [
        json!({ "code": "```typescript\n1\n```" }),
        json!({ "code": "echo", "language": "typescript" }),
    ];
    seen.push(said(&python, "execute_python", &runs).await);
    let installs = [
        json!({ "package": "http://six" }),
        json!({ "package": "" }),
        json!({ "package": "http://six", "version": "latest" }),
        json!({ "package": "six", "lang": "ts" }),
    ];
    seen.push(said(&python, "pip_install", &installs).await);
    let rest = python
        .rest(Method::POST, "/pip_install", &installs[0])
        .await;
    seen.push(rest.text());
    insta::assert_snapshot!(seen.join("\n"));
}

#[tokio::test]
async fn an_empty_id_is_not_left_out_where_it_is_needed() {
    let app = TestApp::on_fake().await;
    let mut seen = Vec::new();
    for tool in ["delete_conversation", "list_files", "read_file"] {
        let empty = json!({ "conversationId": "", "filename": "f" });
        seen.push(said(&app, tool, &[empty]).await);
    }
    seen.push(said(&app, "get_run", &[json!({}), json!({ "id": "run_1" })]).await);
    insta::assert_snapshot!(seen.join("\n"));
}

#[tokio::test]
async fn ignored_arguments_are_noted() {
    let told = async |app: &TestApp, tool: &str, arguments: Value| {
        let params = json!({ "name": tool, "arguments": arguments });
        let result = app.rpc("tools/call", params).await["result"].take();
        let blocks = result["content"].as_array().unwrap();
        let others = blocks[1..].iter().map(|block| block["text"].to_string());
        let notes = &result["structuredContent"]["notes"];
        format!(
            "{tool} {arguments}\n  {:?} {notes}",
            others.collect::<Vec<_>>()
        )
    };
    let python = TestApp::on_fake_speaking(&["python"], &[("MCP_TOOLSET", "python")]).await;
    let artifacts = TestApp::on_fake_speaking(&["python"], &[("MCP_TOOLSET", "artifacts")]).await;
    let mut seen = Vec::new();
    for more in [
        json!({}),
        json!({ "language": "Python3", "timeoutSeconds": "5" }),
        json!({ "network": true, "env": { "A": "1" } }),
        json!({ "network": false, "env": {}, "packages": "" }),
        json!({ "sessionId": "1", "chatInput": "x", "source": "chat" }),
    ] {
        let mut arguments = json!({ "code": "echo" });
        let more = more.as_object().unwrap().clone();
        arguments.as_object_mut().unwrap().extend(more);
        seen.push(told(&python, "execute_python", arguments.clone()).await);
        seen.push(told(&artifacts, "sandbox_run_python", arguments).await);
    }
    let ours = json!({ "language": "python", "code": "echo", "packages": ["six"] });
    seen.push(told(&python, "run_code", ours).await);
    insta::assert_snapshot!(seen.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn a_time_limit_holds_where_none_is_listed() {
    let app = TestApp::on_fake_speaking(&["python"], &[("MCP_TOOLSET", "artifacts")]).await;
    for limit in ["timeout", "timeout_s", "timeoutSeconds"] {
        let run = json!({ "code": "sleep 60", limit: "2" });
        let answer = app.call("sandbox_run_python", run).await;
        assert_eq!(
            answer["stderr"],
            "The program was stopped after its time limit of 2 s: make it faster.",
            "{limit}"
        );
    }
}

#[tokio::test]
async fn a_name_in_quotes_is_the_name() {
    let app = TestApp::on_fake().await;
    let file =
        |name: &str| json!({ "conversationId": "demo", "filename": name, "content": "eA==" });
    let stored = app.call("upload_file", file("\"/data/a b.csv\"")).await;
    assert_eq!(stored["file"]["name"], "a b.csv");
    for name in ["'a b.csv'", "\"./a b.csv\"", "`a b.csv`"] {
        assert_eq!(app.call("read_file", file(name)).await["content"], "x");
    }
    // What a program made under that very name goes first.
    std::fs::write(app.workspace("demo").join("'a b.csv'"), "own\n").unwrap();
    let answer = app.call("read_file", file("'a b.csv'")).await;
    assert_eq!(answer["content"], "own\n");
    insta::assert_snapshot!(
        said(
            &app,
            "read_file",
            &[file("'no.csv'"), file("~/x.csv"), file("\"../x\"")]
        )
        .await
    );
}

#[tokio::test]
async fn the_rest_interface_reads_the_same() {
    let app = TestApp::on_fake().await;
    let mut seen = Vec::new();
    for body in [
        json!({ "code": "echo on", "language": "shell", "session_id": "", "timeout": "5", "stateful": "" }),
        json!({ "code": "echo on", "lang": "Shell", "timeout": "5 SEC", "wait": "no" }),
        json!({ "code": "echo on", "language": "shell", "timeout": "soon" }),
        json!({ "code": "echo on", "language": "shell", "timout": 5 }),
        json!({ "code": "echo on", "language": "shell", "colour": "red" }),
        json!(["echo"]),
    ] {
        let answer = app.rest(Method::POST, "/api/v1/execute_sync", &body).await;
        let answer = stable(answer.json()).to_string();
        let result = answer.contains("on\\n");
        seen.push(format!("{body}\n  {}", if result { "on" } else { &answer }));
    }
    let twice = r#"{"code":"echo 1","language":"shell","code":"echo 2"}"#;
    let request = post().uri("/api/v1/execute_sync").body(Body::from(twice));
    seen.push(app.send(request.unwrap()).await.text());
    insta::assert_snapshot!(seen.join("\n"));
}
