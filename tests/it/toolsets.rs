//! Tools under the names of other servers, on the fake engine: what is listed, translated and refused.

use axum::http::Method;
use serde_json::{Value, json};

use crate::support::{TestApp, eventually};

async fn app(toolset: &str) -> TestApp {
    TestApp::on_fake_speaking(&["python"], &[("MCP_TOOLSET", toolset)]).await
}

async fn names(app: &TestApp) -> Vec<String> {
    let list = app.rpc("tools/list", json!({})).await;
    let tools = list["result"]["tools"].as_array().unwrap().iter();
    tools
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect()
}

/// A call's answer, which no client of this set treats as an exception.
async fn artifacts(app: &TestApp, tool: &str, arguments: Value) -> Value {
    let params = json!({ "name": tool, "arguments": arguments });
    let result = app.rpc("tools/call", params).await["result"].clone();
    assert_ne!(result["isError"], true, "{result}");
    let text = result["content"][0]["text"].as_str().unwrap();
    let answer: Value = serde_json::from_str(text).unwrap();
    assert_eq!(answer, result["structuredContent"]);
    answer
}

#[tokio::test]
async fn a_toolset_is_what_is_listed() {
    let artifacts = app("artifacts").await;
    insta::assert_snapshot!(names(&artifacts).await.join(" "), @"sandbox_close_session sandbox_list_artifacts sandbox_read_artifact sandbox_run_python sandbox_upload_file");
    let python = app("python").await;
    insta::assert_snapshot!(names(&python).await.join(" "), @"execute_python pip_install");
    // Our own tools can be called as well, as the page does, but not those of the other sets.
    assert_eq!(artifacts.run("python", "echo on").await["output"], "on\n");
    let params = json!({ "name": "execute_python", "arguments": { "code": "echo" } });
    let refused = artifacts.rpc("tools/call", params).await;
    assert_eq!(refused["error"]["code"], -32602);
}

#[tokio::test]
async fn the_tools_of_other_servers_are_described() {
    for toolset in ["artifacts", "python"] {
        let app = app(toolset).await;
        let list = app.rpc("tools/list", json!({})).await;
        insta::assert_json_snapshot!(toolset, list["result"]["tools"]);
    }
}

#[tokio::test]
async fn limits_are_told_as_they_are_set() {
    let listed = async |toolset: &str| {
        let settings = [
            ("MCP_TOOLSET", toolset),
            ("RUN_TIMEOUT", "1500ms"),
            ("RUN_TIMEOUT_MAX", "2500ms"),
            ("MAX_UPLOAD_BYTES", "512k"),
            ("MAX_CODE_BYTES", "1536"),
        ];
        let app = TestApp::on_fake_speaking(&["python"], &settings).await;
        app.rpc("tools/list", json!({})).await["result"]["tools"].clone()
    };
    let python = &listed("python").await[0];
    insta::assert_json_snapshot!(python["inputSchema"]["properties"]["timeout"], @r#"
    {
      "type": "number",
      "description": "Time limit in seconds; left out: the server's default.",
      "minimum": 0
    }
    "#);
    let description = python["description"].as_str().unwrap();
    assert!(
        description.contains("Limits: 1.5 s (timeout up to 2.5),"),
        "{description}"
    );
    let artifacts = listed("artifacts").await;
    let described = |name: &str| {
        let tools = artifacts.as_array().unwrap();
        let tool = tools.iter().find(|tool| tool["name"] == name).unwrap();
        tool["description"].as_str().unwrap().to_owned()
    };
    insta::assert_snapshot!(described("sandbox_upload_file"), @r#"Stores a file in /mnt/data for programs of the session. At most 512 KiB. Example: {"filename": "data.csv", "content_base64": "YSxiCjEsMgo="}"#);
    insta::assert_snapshot!(described("sandbox_run_python"), @r#"Runs a Python program in an isolated container and returns its output, its exit code (-1 when it was stopped) and the files that it made. Files in /mnt/data are kept for the session, variables are not. Limits: 1.5 s, 256 MiB of memory, 1536 bytes of code, no internet. Example: {"code": "print(6 * 7)"}"#);
}

#[tokio::test]
async fn files_that_are_left_out_are_told() {
    let app = app("artifacts").await;
    let run = async |count: u32, folder: &str| {
        let lines = (0..count).map(|number| format!("echo x > {folder}/{number}\n"));
        let code = format!("mkdir {folder}\n{}", lines.collect::<String>());
        let run = json!({ "session_id": "s", "code": code });
        let mut answer = artifacts(&app, "sandbox_run_python", run).await;
        let artifacts = answer["artifacts"].as_array().unwrap().len();
        (artifacts, answer["artifacts_truncated"].take())
    };
    // All pages, and what the last one says.
    let list = async || {
        let (mut cursor, mut count) = (Value::Null, 0);
        loop {
            let page = json!({ "session_id": "s", "cursor": cursor });
            let mut answer = artifacts(&app, "sandbox_list_artifacts", page).await;
            count += answer["artifacts"].as_array().unwrap().len();
            cursor = answer["next_cursor"].take();
            let truncated = answer["artifacts_truncated"].take();
            if cursor.is_null() {
                return (count, truncated);
            }
            assert_eq!(truncated, true);
        }
    };
    assert_eq!(run(150, "a").await, (100, true.into()));
    // All new ones are there, though not all old ones.
    assert_eq!(run(50, "b").await, (50, Value::Null));
    assert_eq!(list().await, (200, Value::Null));
    assert_eq!(run(900, "c").await.0, 100);
    assert_eq!(list().await, (1000, true.into()));
}

#[tokio::test]
async fn a_session_is_made_on_first_use_and_keeps_its_files() {
    let app = app("artifacts").await;
    let upload = json!({ "filename": "sales.csv", "content_base64": "YSxiCjEsMgo=" });
    let uploaded = artifacts(&app, "sandbox_upload_file", upload).await;
    let session = uploaded["session_id"].as_str().unwrap().to_owned();
    assert!(
        session.starts_with("sess_") && session.len() == 37,
        "{session}"
    );
    assert_eq!(uploaded["path"], "/mnt/data/sales.csv");
    let code = "cat sales.csv\necho warning >&2\necho x > chart.png\nexit 3";
    let run = json!({ "session_id": session, "code": code });
    let mut ran = artifacts(&app, "sandbox_run_python", run).await;
    assert!(ran["run_id"].as_str().unwrap().starts_with("run_"));
    let url = ran["artifacts"][0]["download_url"].take();
    assert_eq!(app.download(&url).await.text(), "x\n");
    insta::assert_json_snapshot!(ran, { ".session_id" => "…", ".run_id" => "…", ".duration_ms" => "…" }, @r#"
    {
      "session_id": "…",
      "run_id": "…",
      "exit_code": 3,
      "stdout": "a,b\n1,2\n",
      "stderr": "warning\n",
      "stdout_truncated": false,
      "stderr_truncated": false,
      "artifacts": [
        {
          "path": "/mnt/data/chart.png",
          "filename": "chart.png",
          "size_bytes": 2,
          "mime_type": "image/png",
          "download_url": null
        }
      ],
      "duration_ms": "…"
    }
    "#);
    let read = json!({ "session_id": session, "path": "/mnt/data/chart.png" });
    insta::assert_json_snapshot!(artifacts(&app, "sandbox_read_artifact", read).await, @r#"
    {
      "path": "/mnt/data/chart.png",
      "filename": "chart.png",
      "mime_type": "image/png",
      "size_bytes": 2,
      "content_base64": "eAo="
    }
    "#);
    let one = json!({ "session_id": session });
    let list = artifacts(&app, "sandbox_list_artifacts", one.clone()).await;
    let paths: Vec<_> = list["artifacts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|each| &each["path"])
        .collect();
    assert_eq!(paths, ["/mnt/data/chart.png", "/mnt/data/sales.csv"]);
    let closed = artifacts(&app, "sandbox_close_session", one.clone()).await;
    assert_eq!(closed, json!({ "status": "closed" }));
    let again = artifacts(&app, "sandbox_close_session", one).await;
    assert_eq!(again["error"], "session_not_found");
}

#[tokio::test]
async fn a_program_that_was_stopped_ended_with_minus_one() {
    let slow = [("MCP_TOOLSET", "artifacts"), ("RUN_TIMEOUT", "1s")];
    let app = TestApp::on_fake_speaking(&["python"], &slow).await;
    let ran = artifacts(&app, "sandbox_run_python", json!({ "code": "sleep 60" })).await;
    assert_eq!(ran["exit_code"], -1);
    insta::assert_snapshot!(ran["stderr"].as_str().unwrap(), @"The program was stopped after its time limit of 1 s: make it faster.");
}

#[tokio::test]
async fn errors_of_this_set_are_answers_with_their_own_codes() {
    let limits = [
        ("MCP_TOOLSET", "artifacts"),
        ("MAX_CODE_BYTES", "1k"),
        ("MAX_UPLOAD_BYTES", "16"),
    ];
    let app = TestApp::on_fake_speaking(&["python"], &limits).await;
    let file = |name: &str, content: &str| json!({ "session_id": "s", "filename": name, "content_base64": content });
    assert_eq!(
        artifacts(&app, "sandbox_upload_file", file("f", "eA==")).await["session_id"],
        "s"
    );
    // Larger than what one answer contains.
    let sparse = std::fs::File::create(app.workspace("s").join("huge")).unwrap();
    sparse.set_len(11 << 20).unwrap();
    let mut seen = Vec::new();
    for (tool, arguments) in [
        ("sandbox_upload_file", file("f", "eA==")),
        ("sandbox_upload_file", file("../f", "eA==")),
        ("sandbox_upload_file", file("", "eA==")),
        ("sandbox_upload_file", file("g", "???")),
        ("sandbox_upload_file", file("g", "eHh4eHh4eHh4eHh4eHh4eHh4")),
        ("sandbox_run_python", json!({ "code": "#".repeat(1025) })),
        (
            "sandbox_run_python",
            json!({ "code": "", "session_id": "a b" }),
        ),
        ("sandbox_run_python", json!({ "session_id": "s" })),
        (
            "sandbox_read_artifact",
            json!({ "session_id": "s", "path": "/mnt/data/no" }),
        ),
        (
            "sandbox_read_artifact",
            json!({ "session_id": "s", "path": "/etc/passwd" }),
        ),
        (
            "sandbox_read_artifact",
            json!({ "session_id": "s", "path": "/mnt/data/../x" }),
        ),
        (
            "sandbox_read_artifact",
            json!({ "session_id": "s", "path": "/mnt/data/huge" }),
        ),
        (
            "sandbox_read_artifact",
            json!({ "session_id": "t", "path": "/mnt/data/f" }),
        ),
        ("sandbox_list_artifacts", json!({ "session_id": "t" })),
    ] {
        let answer = artifacts(&app, tool, arguments).await;
        assert_eq!(answer["error"], answer["code"]);
        let size = answer
            .get("size_bytes")
            .map_or_else(String::new, |size| format!(" {size}"));
        seen.push(format!(
            "{tool} {}{size}: {}",
            answer["error"].as_str().unwrap(),
            answer["message"].as_str().unwrap()
        ));
    }
    insta::assert_snapshot!(seen.join("\n"), @r#"
    sandbox_upload_file file_exists: there is a file of that name already: choose another filename, or replace it with overwrite: true
    sandbox_upload_file invalid_path: filename contains the part "..": name the folders on the way down instead
    sandbox_upload_file invalid_filename: filename is empty: give a name such as data.csv or folder/data.csv
    sandbox_upload_file invalid_content: content_base64 is not valid base64 (Invalid symbol 63, offset 0.): send the file's bytes in base64, also if it is text
    sandbox_upload_file upload_too_large: content_base64 has 18 bytes, the limit is 16: upload smaller pieces
    sandbox_run_python code_too_large: code has 1025 bytes, the limit is 1024: upload data as a file and read it from /data
    sandbox_run_python invalid_session_id: session_id must be 1 to 64 letters, digits, '_' and '-': leave it out to get a new one
    sandbox_run_python invalid_arguments: sandbox_run_python: missing field `code`
    sandbox_read_artifact not_found: path "/mnt/data/no" is not a file of this session: see sandbox_list_artifacts
    sandbox_read_artifact invalid_path: path must begin with /mnt/data/: see sandbox_list_artifacts
    sandbox_read_artifact invalid_path: path contains the part "..": name the folders on the way down instead
    sandbox_read_artifact artifact_too_large 11534336: huge has 11534336 bytes, the limit is 10485760: download it by its download_url
    sandbox_read_artifact session_not_found: there is no such session: leave session_id out of the next run or upload to get a new one
    sandbox_list_artifacts session_not_found: there is no such session: leave session_id out of the next run or upload to get a new one
    "#);
    let replace =
        json!({ "session_id": "s", "filename": "f", "content_base64": "eXl5", "overwrite": true });
    assert_eq!(
        artifacts(&app, "sandbox_upload_file", replace).await["path"],
        "/mnt/data/f"
    );
    let read = json!({ "session_id": "s", "path": "/data/f" });
    assert_eq!(
        artifacts(&app, "sandbox_read_artifact", read).await["size_bytes"],
        3
    );
}

#[tokio::test]
async fn a_session_with_a_program_is_busy() {
    let app = app("artifacts").await;
    let long = artifacts(
        &app,
        "sandbox_run_python",
        json!({ "session_id": "s", "code": "sleep 60" }),
    );
    let meanwhile = async {
        eventually("it runs", || app.app.parts.gate.count() == 1).await;
        let run = json!({ "session_id": "s", "code": "echo" });
        let run = artifacts(&app, "sandbox_run_python", run).await;
        let close = artifacts(&app, "sandbox_close_session", json!({ "session_id": "s" })).await;
        app.ask(Method::DELETE, "/api/v1/sessions/s").await;
        (run["error"].clone(), close["error"].clone())
    };
    let (long, busy) = tokio::join!(long, meanwhile);
    assert_eq!(busy, ("session_busy".into(), "session_busy".into()));
    assert_eq!(long["exit_code"], -1);
}

#[tokio::test]
async fn python_without_sessions_has_one_directory() {
    let app = app("python").await;
    let first = app
        .call("execute_python", json!({ "code": "echo x > f\necho out" }))
        .await;
    insta::assert_json_snapshot!(first, { ".execution_time" => "…" }, @r#"
    {
      "stdout": "out\n",
      "stderr": "",
      "exit_code": 0,
      "execution_time": "…",
      "success": true
    }
    "#);
    let second = json!({ "code": "cat f", "timeout": 120 });
    assert_eq!(app.call("execute_python", second).await["stdout"], "x\n");
    // The same as over plain HTTP.
    let rest = app
        .rest(Method::POST, "/execute", &json!({ "code": "cat f" }))
        .await;
    assert_eq!(rest.json()["stdout"], "x\n");
    let refused = app
        .call("execute_python", json!({ "code": "echo", "timeout": 121 }))
        .await;
    insta::assert_json_snapshot!(refused, @r#"
    {
      "success": false,
      "code": "invalid_arguments",
      "message": "timeout is 121.0: it must be greater than 0 and at most 120 seconds"
    }
    "#);
}

#[tokio::test]
async fn long_output_is_in_answers_that_have_no_other_place_for_it() {
    let code: Vec<_> = (0..300)
        .map(|line| format!("echo line {line:04}\n"))
        .collect();
    let program = json!({ "code": code.concat() });
    for toolset in ["artifacts", "python"] {
        let settings = [("MCP_TOOLSET", toolset), ("OUTPUT_FOR_MODEL", "1000")];
        let app = TestApp::on_fake_speaking(&["python"], &settings).await;
        let answers = if toolset == "artifacts" {
            let answer = artifacts(&app, "sandbox_run_python", program.clone()).await;
            assert_eq!(answer["stdout_truncated"], true);
            assert_eq!(answer["stderr_truncated"], false);
            vec![answer]
        } else {
            let rest = app.rest(Method::POST, "/execute", &program).await;
            vec![
                app.call("execute_python", program.clone()).await,
                rest.json(),
            ]
        };
        for answer in answers {
            let stdout = answer["stdout"].as_str().unwrap();
            assert!(stdout.starts_with("line 0000\n"), "{stdout}");
            assert!(stdout.ends_with("line 0299\n"), "{stdout}");
            assert!((600..=1000).contains(&stdout.chars().count()), "{stdout}");
            assert!(stdout.contains("characters left out"), "{stdout}");
        }
    }
}

#[tokio::test]
async fn parts_of_seconds_are_told() {
    let settings = [
        ("MCP_TOOLSET", "python"),
        ("RUN_TIMEOUT", "1500ms"),
        ("RUN_TIMEOUT_MAX", "2500ms"),
    ];
    let app = TestApp::on_fake_speaking(&["python"], &settings).await;
    let list = app.rpc("tools/list", json!({})).await;
    let described = list["result"]["tools"][0]["description"].as_str().unwrap();
    assert!(
        described.contains("Limits: 1.5 s (timeout up to 2.5),"),
        "{described}"
    );
    let long = json!({ "code": "echo", "timeout": 3 });
    let refused = app.call("execute_python", long.clone()).await;
    assert_eq!(
        refused["message"],
        "timeout is 3.0: it must be greater than 0 and at most 2.5 seconds"
    );
    for path in ["/execute", "/api/v1/execute"] {
        let answer = app.rest(Method::POST, path, &long).await.json();
        assert_eq!(answer["error"]["message"], refused["message"]);
    }
    let ours = json!({ "language": "python", "code": "echo", "timeoutSeconds": 3 });
    assert_eq!(
        app.call("run_code", ours).await["message"],
        "timeoutSeconds is 3: it must be greater than 0 and at most 2.5"
    );
}
