//! Calls as models write them: what has one meaning is taken, and what has two is refused.

use axum::body::Body;
use axum::http::Method;
use serde_json::{Value, json};

use crate::support::{TestApp, post, stable};

/// What the images say of themselves.
const IMAGES: &[(&str, &str)] = &[
    ("python", include_str!("../../runners/python/Dockerfile")),
    ("shell", include_str!("../../runners/shell/Dockerfile")),
    (
        "typescript",
        include_str!("../../runners/typescript/Dockerfile"),
    ),
];

/// A server whose runners have the names that ours have.
async fn app() -> TestApp {
    let app = TestApp::on_fake_with_notebook(&[]).await;
    let fake = app.fake.as_ref().unwrap();
    for (language, dockerfile) in IMAGES {
        let (_, aliases) = dockerfile.split_once("sandbox.aliases=").unwrap();
        fake.add_image(language, aliases.split_whitespace().next().unwrap(), 2);
    }
    let mut views = app.app.parts.gate.catalog.watch();
    let all = views.wait_for(|view| {
        view.runners
            .values()
            .all(|runner| !runner.aliases.is_empty() || runner.language == "notebook")
            && view.runners.len() == 4
    });
    all.await.unwrap();
    app
}

fn with(mut arguments: Value, more: Value) -> Value {
    let (all, Value::Object(more)) = (arguments.as_object_mut().unwrap(), more) else {
        panic!("no object");
    };
    all.extend(more);
    arguments
}

fn message(answer: &Value) -> String {
    assert_eq!(answer["success"], false, "{answer}");
    format!(
        "{}: {}",
        answer["code"].as_str().unwrap(),
        answer["message"].as_str().unwrap()
    )
}

/// A program that prints its environment, run with more arguments.
async fn printed(app: &TestApp, more: Value) -> String {
    let program = json!({ "language": "shell", "code": "echo $A $B" });
    let answer = app.call("run_code", with(program, more)).await;
    assert_eq!(answer["status"], "ok", "{answer}");
    answer["output"].as_str().unwrap().trim().to_owned()
}

#[tokio::test]
async fn a_run_is_asked_for_in_many_ways() {
    let app = app().await;
    for more in [
        json!({ "network": "false", "wait": "", "conversationId": "", "timeoutSeconds": " 30 " }),
        json!({ "environment": "{\"A\":\"1\"}" }),
        json!({ "env": [{ "name": "A", "value": 1 }] }),
        json!({ "environment": ["A=1"], "stateful": "False" }),
        json!({ "environment": "{'A': '1'}", "timeout": "5s" }),
    ] {
        let expected = if more.to_string().contains('A') {
            "1"
        } else {
            ""
        };
        assert_eq!(printed(&app, more.clone()).await, expected, "{more}");
    }
    let names =
        json!({ "lang": "Shell", "source": "echo on", "session_id": "demo", "time_out": 5 });
    let answer = app.call("run_code", names).await;
    insta::assert_json_snapshot!(stable(answer), @r#"
    {
      "success": true,
      "output": "on\n",
      "stdout": "on\n",
      "stderr": "",
      "exitCode": 0,
      "status": "ok",
      "durationMs": "…",
      "usage": "…",
      "truncated": {
        "stdout": 0,
        "stderr": 0
      },
      "files": [],
      "filesTruncated": false,
      "conversationId": "demo",
      "runId": "…"
    }
    "#);
    let cell = json!({ "conversationId": "demo", "language": "notebook", "code": "X=kept", "stateful": "true" });
    assert_eq!(app.call("run_code", cell.clone()).await["status"], "ok");
    let next = with(cell, json!({ "code": "echo $X" }));
    assert_eq!(app.call("run_code", next).await["output"], "kept\n");
}

#[tokio::test(start_paused = true)]
async fn a_time_limit_holds_under_every_name() {
    let app = TestApp::on_fake().await;
    for limit in [
        json!({ "timeout": 2 }),
        json!({ "timeout_seconds": "2" }),
        json!({ "timeoutSeconds": "2s" }),
        json!({ "timeout": "2", "timeoutSeconds": 2.0 }),
    ] {
        let long = json!({ "language": "shell", "code": "sleep 60" });
        let answer = app.call("run_code", with(long, limit)).await;
        let hint = answer["hint"].as_str().unwrap();
        assert!(hint.contains("its time limit of 2 s"), "{hint}");
    }
    let run = app.run("shell", "echo 0123456789").await;
    let page = json!({ "run_id": run["runId"], "offset": "7", "stream": "STDOUT", "timeout": "1" });
    assert_eq!(app.call("get_run", page).await["page"]["text"], "789\n");
    let latest = json!({ "runId": "", "conversationId": "demo", "stream": "" });
    assert_eq!(app.call("get_run", latest).await["status"], "ok");
}

#[tokio::test]
async fn a_language_has_many_names() {
    let app = app().await;
    for (language, names) in [
        (
            "python",
            &[
                "py",
                "Python",
                "python3",
                "python3.12",
                "Python 3",
                "python:3.13",
                "IPython",
                " python ",
            ][..],
        ),
        (
            "typescript",
            &[
                "ts",
                "TypeScript",
                "js",
                "javascript",
                "Java Script",
                "node",
                "nodejs",
                "Node.js",
                "node20",
                "bun",
            ],
        ),
        ("shell", &["sh", "bash", "BASH", "zsh", "bash5.2"]),
    ] {
        for name in names {
            let view = app.app.parts.gate.catalog.view();
            let found = view.find(name).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(found.language, language, "{name}");
            assert_eq!(app.run(name, "echo on").await["output"], "on\n", "{name}");
        }
    }
    let mut seen = Vec::new();
    for name in ["python2.7", "powershell", "c", "", "3"] {
        seen.push(message(&app.run(name, "echo").await));
    }
    insta::assert_snapshot!(seen.join("\n"), @r#"
    unknown_language: language "python2.7" has no runner here: use one of notebook, python, shell, typescript
    unknown_language: language "powershell" has no runner here: use one of notebook, python, shell, typescript
    unknown_language: language "c" has no runner here: use one of notebook, python, shell, typescript
    unknown_language: language "" has no runner here: use one of notebook, python, shell, typescript
    unknown_language: language "3" has no runner here: use one of notebook, python, shell, typescript
    "#);
    // The REST interface knows them too.
    let program = json!({ "language": "nodejs", "code": "echo on" });
    let answer = app.rest(Method::POST, "/api/v1/execute", &program).await;
    assert!(answer.text().contains("on\\n"), "{}", answer.text());
}

#[tokio::test]
async fn a_program_is_taken_out_of_its_fence() {
    let app = app().await;
    for (language, code) in [
        ("shell", "```bash\necho on\n```"),
        ("shell", "```\necho on\n```\n"),
        ("python", "\n```python3\necho on\n```\n"),
        ("typescript", "~~~js\r\necho on\r\n~~~"),
        ("notebook", "```notebook\necho on\n```"),
        ("shell", "\u{feff}echo on"),
        ("shell", "\u{feff}```sh\r\necho on\r\n```\r\n"),
    ] {
        let answer = app.run(language, code).await;
        assert_eq!(answer["output"], "on\n", "{code:?} {answer}");
    }
    // A shell would look for a file whose name ends in CR.
    let run = app.run("shell", "echo x > f\r\ncat f\r\n").await;
    assert_eq!(run["files"][0]["name"], "f");
    // One in a language that may have it is not taken apart.
    let kept = app.run("notebook", "```\necho on\n```").await["stderr"].clone();
    assert!(kept.as_str().unwrap().contains("```: not found"), "{kept}");
    // A shell would run the rest of these in pieces.
    for code in [
        "```\necho on\n```\n```\necho on\n```",
        "```console\n$ ls\n```",
        "Here it is:\n```sh\nls\n```",
        "```sh\nls",
    ] {
        let refused = message(&app.run("shell", code).await);
        assert!(refused.contains("send the program alone"), "{refused}");
    }
    let other = app.run("shell", "```python\nprint(1)\n```").await;
    insta::assert_snapshot!(message(&other), @"invalid_arguments: code is one Markdown block of python, and language is shell: send the program alone, with its own language");
}

#[tokio::test]
async fn a_file_has_one_name_for_all_tools() {
    let app = TestApp::on_fake().await;
    for name in [
        "/data/in/x.csv",
        "./in/x.csv",
        "/mnt/data/in/x.csv",
        "in//x.csv",
        "sandbox:/mnt/data/in/x.csv",
    ] {
        let upload = json!({ "conversation_id": "demo", "path": name, "data": "eA==" });
        assert_eq!(
            app.call("upload_file", upload).await["file"]["name"],
            "in/x.csv",
            "{name}"
        );
        let read =
            json!({ "conversationId": "demo", "file_name": name, "length": "1", "offset": "0" });
        let answer = app.call("read_file", read).await;
        assert_eq!(
            (&answer["content"], &answer["file"]["name"]),
            (&"x".into(), &"in/x.csv".into()),
            "{name}"
        );
    }
    let ended = app
        .ask(
            Method::DELETE,
            "/api/v1/conversations/demo/files/./in//x.csv",
        )
        .await;
    assert_eq!(ended.status.as_u16(), 204, "{}", ended.text());
    let literal = json!({ "conversationId": "demo", "filename": "data/x.csv", "content": "" });
    let stored = app.call("upload_file", literal).await;
    assert_eq!(
        (&stored["file"]["name"], &stored["file"]["size"]),
        (&"data/x.csv".into(), &0.into())
    );
}

#[tokio::test]
async fn base64_is_taken_in_all_its_forms() {
    let app = TestApp::on_fake().await;
    for content in [
        "/+8=",
        "_-8",
        "_-8=",
        "/+\r\n8=\n",
        "data:;base64,/+8=",
        "data:image/png;name=a.png;base64,_-8",
    ] {
        let upload = json!({ "conversationId": "demo", "filename": "f", "content": content });
        assert_eq!(
            app.call("upload_file", upload).await["file"]["size"],
            2,
            "{content:?}"
        );
        let read = json!({ "conversationId": "demo", "filename": "f" });
        assert_eq!(
            app.call("read_file", read).await["content"],
            "/+8=",
            "{content:?}"
        );
    }
    let mut seen = Vec::new();
    for content in [
        json!("data:text/plain,hello"),
        json!("hello, world"),
        json!(7),
        json!("data:;base64,?"),
    ] {
        let upload = json!({ "conversationId": "demo", "filename": "f", "content": content });
        seen.push(message(&app.call("upload_file", upload).await));
    }
    let text = json!({ "conversationId": "demo", "filename": "f", "text": "hello" });
    seen.push(message(&app.call("upload_file", text).await));
    insta::assert_snapshot!(seen.join("\n"), @r#"
    invalid_arguments: content is a data: URI without base64: begin it with data:;base64, or send base64 alone
    invalid_arguments: content is not valid base64 (Invalid symbol 44, offset 5.): send the file's bytes in base64, also if it is text
    invalid_arguments: upload_file: content: invalid type: integer `7`, expected a string
    invalid_arguments: content is not valid base64 (Invalid symbol 63, offset 0.): send the file's bytes in base64, also if it is text
    invalid_arguments: upload_file: there is no argument "text": did you mean content, which is base64, also of text? It takes conversationId, filename, content
    "#);
}

#[tokio::test]
async fn packages_are_asked_for_in_many_ways() {
    let app = app().await;
    let mut seen = Vec::new();
    // Each is refused for what comes last, so all before it was understood.
    for packages in [
        json!("http://six"),
        json!("six, http://six"),
        json!("six>=1,<2\nhttp://six"),
        json!("[\"six\", \"http://six\"]"),
        json!("['six', 'http://six']"),
        json!({ "name": "http://six" }),
        json!("pip install six"),
        json!(""),
        json!(7),
    ] {
        let install = json!({ "language": "python3.13", "packages": packages });
        seen.push(message(&app.call("install_packages", install).await));
    }
    let install = json!({ "lang": "py", "package": "http://six" });
    seen.push(message(&app.call("install_packages", install).await));
    insta::assert_snapshot!(seen.join("\n"), @r#"
    invalid_requirement: packages: "http://six" is a URL or a path: packages come from the configured index only, so give a name, and a version if need be
    invalid_requirement: packages: "http://six" is a URL or a path: packages come from the configured index only, so give a name, and a version if need be
    invalid_requirement: packages: "http://six" is a URL or a path: packages come from the configured index only, so give a name, and a version if need be
    invalid_requirement: packages: "http://six" is a URL or a path: packages come from the configured index only, so give a name, and a version if need be
    invalid_requirement: packages: "http://six" is a URL or a path: packages come from the configured index only, so give a name, and a version if need be
    invalid_requirement: packages: "http://six" is a URL or a path: packages come from the configured index only, so give a name, and a version if need be
    invalid_requirement: packages: "pip install six" is not a package requirement (names have letters, digits, -, _ and . only, and begin and end with one of the first two): give a name such as "six", or name and version such as "six==1.17.0"
    invalid_arguments: packages has 0 entries: give 1 to 50
    invalid_arguments: install_packages: packages: invalid type: integer `7`, expected an array
    invalid_requirement: packages: "http://six" is a URL or a path: packages come from the configured index only, so give a name, and a version if need be
    "#);
}

#[tokio::test]
async fn arguments_that_contradict_each_other_are_named() {
    let app = TestApp::on_fake().await;
    let mut seen = Vec::new();
    for more in [
        json!({ "timeout": 5, "timeoutSeconds": 6 }),
        json!({ "conversation_id": "a", "conversationId": "b" }),
        json!({ "timeout_ms": 5000 }),
        json!({ "timout": 5 }),
        json!({ "languages": "python" }),
        json!({ "environment": [{ "name": "A", "value": "1" }, { "name": "A", "value": "2" }] }),
        json!({ "environment": "A" }),
        json!({ "network": "maybe" }),
        json!({ "timeoutSeconds": "soon" }),
        json!({ "timeoutSeconds": "1,5" }),
    ] {
        let program = json!({ "language": "shell", "code": "echo" });
        seen.push(message(&app.call("run_code", with(program, more)).await));
    }
    insta::assert_snapshot!(seen.join("\n"), @r#"
    invalid_arguments: run_code: "timeout" and "timeoutSeconds" are the same argument and differ: give timeoutSeconds alone
    invalid_arguments: run_code: "conversation_id" and "conversationId" are the same argument and differ: give conversationId alone
    invalid_arguments: run_code: there is no argument "timeout_ms": did you mean timeoutSeconds, in seconds? It takes conversationId, language, code, stdin, network, hosts, secrets, environment, timeoutSeconds, stateful, wait, restart
    invalid_arguments: run_code: there is no argument "timout": did you mean timeoutSeconds? It takes conversationId, language, code, stdin, network, hosts, secrets, environment, timeoutSeconds, stateful, wait, restart
    invalid_arguments: run_code: there is no argument "languages": did you mean language? It takes conversationId, language, code, stdin, network, hosts, secrets, environment, timeoutSeconds, stateful, wait, restart
    invalid_arguments: run_code: environment: "A" is there more than once: give it once
    invalid_arguments: run_code: environment: line 1 is not plainly NAME=value: give an object such as {"NAME": "value"}
    invalid_arguments: run_code: network: invalid type: string "maybe", expected a boolean
    invalid_arguments: run_code: timeoutSeconds: invalid type: string "soon", expected a number
    invalid_arguments: run_code: timeoutSeconds: invalid type: string "1,5", expected a number
    "#);
    // Words that clients send along, next to ours.
    let along =
        json!({ "source": "chat", "name": "run_code", "session": { "id": 1 }, "sessionId": "1" });
    assert_eq!(printed(&app, along).await, "");
}

#[tokio::test]
async fn the_tools_of_other_servers_take_the_same() {
    let artifacts = TestApp::on_fake_speaking(&["python"], &[("MCP_TOOLSET", "artifacts")]).await;
    let upload = json!({ "file_name": "./x.csv", "content": "data:;base64,eA", "session": "s", "overwrite": "true" });
    let uploaded = artifacts.call("sandbox_upload_file", upload).await;
    assert_eq!(
        uploaded,
        json!({ "session_id": "s", "path": "/mnt/data/x.csv" })
    );
    for path in ["x.csv", "./x.csv", "/data/x.csv", "/mnt/data//x.csv"] {
        let read = json!({ "session_id": "s", "filename": path });
        assert_eq!(
            artifacts.call("sandbox_read_artifact", read).await["path"],
            "/mnt/data/x.csv"
        );
    }
    let run = json!({ "code": "```python\ncat x.csv\n```", "session_id": "s", "sessionId": "of the engine" });
    assert_eq!(
        artifacts.call("sandbox_run_python", run).await["stdout"],
        "x"
    );
    let made = json!({ "code": "echo", "session_id": "" });
    let made = artifacts.call("sandbox_run_python", made).await;
    assert!(
        made["session_id"].as_str().unwrap().starts_with("sess_"),
        "{made}"
    );
    let python = TestApp::on_fake_speaking(&["python"], &[("MCP_TOOLSET", "python")]).await;
    let run = json!({ "source": "echo on", "timeoutSeconds": "5" });
    assert_eq!(python.call("execute_python", run).await["stdout"], "on\n");
    let pip = json!({ "packages": ["http://six"], "version": "" });
    insta::assert_snapshot!(message(&python.call("pip_install", pip).await), @r#"invalid_requirement: package: "http://six" is a URL or a path: packages come from the configured index only, so give a name, and a version if need be"#);
}

#[tokio::test]
async fn arguments_may_come_as_a_list_or_a_text() {
    let app = TestApp::on_fake().await;
    let program = json!({ "language": "shell", "code": "echo on" });
    for arguments in [json!(program.to_string()), json!(format!(" {program}\n"))] {
        assert_eq!(app.call("run_code", arguments).await["output"], "on\n");
    }
    for arguments in [
        json!([]),
        json!(""),
        json!("null"),
        json!("{}"),
        Value::Null,
    ] {
        let answer = app.call("list_runners", arguments).await;
        assert_eq!(answer["runners"][0]["language"], "shell");
    }
    let tools = app.rpc("tools/list", json!([])).await;
    assert_eq!(tools["result"]["tools"].as_array().unwrap().len(), 9);
    let text = json!({ "name": "run_code", "arguments": program }).to_string();
    let answer = app.rpc("tools/call", json!(text)).await;
    assert_eq!(answer["result"]["structuredContent"]["output"], "on\n");
    let mut seen = Vec::new();
    for params in [
        json!({ "name": "run_code", "arguments": ["echo"] }),
        json!({ "name": "run_code", "arguments": "echo" }),
        json!(["run_code"]),
    ] {
        seen.push(app.rpc("tools/call", params).await["error"].to_string());
    }
    insta::assert_snapshot!(seen.join("\n"), @r#"
    {"code":-32602,"message":"tools/call: params.arguments must be one object with the arguments by name, such as {\"code\": \"print(6 * 7)\"}"}
    {"code":-32602,"message":"tools/call: params.arguments must be one object with the arguments by name, such as {\"code\": \"print(6 * 7)\"}"}
    {"code":-32600,"message":"params must be an object"}
    "#);
    // A message with two ids is refused as before.
    let twice = r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/list","params":[]}"#;
    let answer = app.send(post().body(Body::from(twice)).unwrap()).await;
    assert_eq!(answer.status.as_u16(), 400);
}

#[tokio::test]
async fn placeholders_for_no_id_make_a_new_conversation() {
    let app = TestApp::on_fake().await;
    for id in ["null", " None", "undefined", " "] {
        let run = json!({ "language": "shell", "code": "echo", "conversationId": id });
        let answer = app.call("run_code", run).await;
        let made = answer["conversationId"].as_str().unwrap();
        assert!(made.starts_with("conv_"), "{id:?} {made}");
    }
}

#[tokio::test]
async fn unknown_arguments_are_noted() {
    let app = TestApp::on_fake().await;
    let mut told = Vec::new();
    for name in ["vars", "persist", "reset", "net", "max_runtime", "conv_id"] {
        let run = json!({ "language": "shell", "code": "echo", name: 1 });
        let answer = message(&app.call("run_code", run).await);
        told.push(answer.split("? It takes").next().unwrap().to_owned());
    }
    insta::assert_snapshot!(told.join("\n"));
    for name in ["time_limit_seconds", "maxTimeSeconds", "timeout_in_s"] {
        let run = json!({ "language": "shell", "code": "echo", name: 0 });
        let answer = message(&app.call("run_code", run).await);
        assert!(answer.contains("timeout"), "{name}: {answer}");
    }
}
