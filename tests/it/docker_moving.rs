//! The documented examples of other servers, word for word, on the real engine.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;

use axum::http::{Method, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::docker_packages::make_packages;
use crate::support::{TestApp, eventually};

/// With the memory that a chart needs on a busy machine.
const ARTIFACTS: &[(&str, &str)] = &[("MCP_TOOLSET", "artifacts"), ("RUN_TIMEOUT", "120s")];

/// Warm and cold, since a program must not see the difference.
const WARM: &[(&str, &str)] = &[
    ("POOL_SIZE", "python=1"),
    ("SANDBOX_REUSE", "conversation"),
    ("MAX_WARM_SANDBOXES", "1"),
];

async fn call(app: &TestApp, tool: &str, arguments: Value) -> Value {
    let params = json!({ "name": tool, "arguments": arguments });
    let response = app.rpc("tools/call", params).await;
    response["result"]["structuredContent"].clone()
}

/// Upload, analyse, draw, read, close: the example of the artifacts family.
async fn workflow(app: &TestApp) {
    let csv = "month,revenue\n2024-01,1200\n2024-01,800\n2024-02,1500\n";
    let upload = json!({ "filename": "sales.csv", "content_base64": STANDARD.encode(csv) });
    let uploaded = call(app, "sandbox_upload_file", upload).await;
    assert_eq!(uploaded["path"], "/mnt/data/sales.csv");
    let session = &uploaded["session_id"];
    let code = "import pandas as pd\nimport matplotlib.pyplot as plt\ndf = pd.read_csv('/mnt/data/sales.csv')\n\
        print(df.describe())\ndf.groupby('month')['revenue'].sum().plot(kind='bar')\n\
        plt.savefig('/mnt/data/chart.png')\n";
    let ran = call(
        app,
        "sandbox_run_python",
        json!({ "session_id": session, "code": code }),
    )
    .await;
    assert_eq!(ran["exit_code"], 0, "{ran}");
    assert!(
        ran["stdout"].as_str().unwrap().contains("1166.666667"),
        "{ran}"
    );
    assert_eq!(ran["artifacts"][0]["filename"], "chart.png");
    assert_eq!(ran["artifacts"][0]["mime_type"], "image/png");
    // It is one directory, whatever its name.
    let both = "import os\nprint(sorted(os.listdir('/mnt/data')) == sorted(os.listdir('/data')))\n\
        open('/mnt/data/sub.txt', 'w').write('x')\nprint(open('/data/sub.txt').read(), os.path.exists('/mnt/data/..'))\n\
        print(undefined_variable)";
    let ran = call(
        app,
        "sandbox_run_python",
        json!({ "session_id": session, "code": both }),
    )
    .await;
    assert_eq!(
        (&ran["stdout"], &ran["exit_code"]),
        (&"True\nx True\n".into(), &1.into())
    );
    assert!(
        ran["stderr"].as_str().unwrap().contains("NameError"),
        "{ran}"
    );
    let read = json!({ "session_id": session, "path": "/mnt/data/chart.png" });
    let read = call(app, "sandbox_read_artifact", read).await;
    assert_eq!(read["mime_type"], "image/png");
    let bytes = STANDARD
        .decode(read["content_base64"].as_str().unwrap())
        .unwrap();
    assert!(bytes.starts_with(b"\x89PNG"));
    let closed = call(
        app,
        "sandbox_close_session",
        json!({ "session_id": session }),
    )
    .await;
    assert_eq!(closed, json!({ "status": "closed" }));
}

#[tokio::test]
async fn the_workflow_with_artifacts_works_cold() {
    let app = TestApp::on_docker_with(ARTIFACTS).await;
    workflow(&app).await;
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn the_workflow_with_artifacts_works_warm() {
    let app = TestApp::on_docker_with(&[ARTIFACTS, WARM].concat()).await;
    app.parked("python", 1).await;
    workflow(&app).await;
    // Its upload took the sandbox that was parked.
    assert!(app.starts("own") > 0);
    app.assert_nothing_is_left().await;
}

/// The lines of a stream.
async fn execute(app: &TestApp, body: Value) -> Vec<Value> {
    let answer = app.rest(Method::POST, "/api/v1/execute", &body).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    let text = answer.text();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test]
async fn a_stream_has_text_pictures_errors_and_a_result() {
    let app = TestApp::on_docker_with(&[("RUN_TIMEOUT", "120s")]).await;
    let hello = execute(&app, json!({ "code": "print('Hello, World!')" })).await;
    assert_eq!(hello[0]["text"], "Hello, World!\n");
    for last in ["savefig('plot.png')", "show()"] {
        let code = format!(
            "import matplotlib.pyplot as plt\nplt.plot([1,2,3], [1,4,9])\nplt.{last}\nprint('né…', flush=True)\n"
        );
        let body = json!({ "code": code, "session_id": last, "stateful": false });
        let lines = execute(&app, body).await;
        let text = lines.iter().filter_map(|line| line["text"].as_str());
        assert_eq!(text.collect::<String>(), "né…\n");
        let is_picture = |line: &&Value| line.get("image").is_some();
        let pictures: Vec<_> = lines.iter().filter(is_picture).collect();
        assert_eq!(pictures.len(), 1, "{last}: {lines:?}");
        assert_eq!(pictures[0]["format"], "png");
        let image = pictures[0]["image"].as_str().unwrap();
        assert!(image.starts_with("iVBORw0KGgo"));
    }
    let lines = execute(
        &app,
        json!({ "code": "print(undefined_var)", "stateful": false }),
    )
    .await;
    let error = lines
        .iter()
        .find(|line| line.get("error").is_some())
        .unwrap();
    assert_eq!(
        error["error"],
        "NameError: name 'undefined_var' is not defined"
    );
    assert_eq!(error["traceback"][0], "Traceback (most recent call last):");
    assert_eq!(lines.last().unwrap()["result"]["status"], "error");
    app.assert_nothing_is_left().await;
}

/// What a program of a named session prints, by streams, since lines may be cut anywhere, and the other lines with what
/// matters here.
async fn cell(app: &TestApp, code: &str) -> String {
    let body = json!({ "code": code, "session_id": "notebook", "timeout": 20 });
    let lines = execute(app, body).await;
    let of = |stream: &str| {
        let lines = lines.iter().filter(|line| line["stream"] == stream);
        lines
            .filter_map(|line| line["text"].as_str())
            .collect::<String>()
    };
    let mut told = format!(">>> {code}\n{}{}", of("stdout"), of("stderr"));
    for line in lines.iter().filter(|line| line.get("text").is_none()) {
        let mut line = line.clone();
        if let Some(image) = line.get_mut("image") {
            assert!(image.as_str().unwrap().starts_with("iVBORw0KGgo"));
            *image = "…".into();
        }
        if let Some(result) = line.get_mut("result") {
            let parts = ["session_id", "status", "exitCode", "kernelRestarted"];
            let parts = parts.map(|name| (name.to_owned(), result[name].take()));
            let parts = parts.into_iter().filter(|(_, value)| !value.is_null());
            *result = parts.collect();
        }
        writeln!(told, "{line}").unwrap();
    }
    told
}

#[tokio::test]
async fn a_named_session_keeps_its_variables() {
    let app = TestApp::on_docker_with(&[("RUN_TIMEOUT", "120s")]).await;
    let mut told = String::new();
    for code in [
        "x = 41",
        "x + 1",
        "import pandas as pd; pd.DataFrame({'n': [x]})",
        "import matplotlib.pyplot as plt\nplt.plot([1, 2]);",
        "plt.bar(['a', 'b'], [3, 1])\nplt.show()\nprint('shown')",
        "print('begun'); y = x / 0",
        "def f(:",
        "x",
    ] {
        told += &cell(&app, code).await;
    }
    insta::assert_snapshot!(told);
    // A process of its own has none of it.
    let alone = json!({ "code": "x", "session_id": "notebook", "stateful": false });
    let alone = execute(&app, alone).await;
    assert_eq!(alone.last().unwrap()["result"]["status"], "error");
    // While a program runs, another call is refused at once.
    let (answer, second) = tokio::join!(cell(&app, "import time; time.sleep(3); x"), async {
        eventually("the kernel works", || {
            app.app.parts.kernels.count_of("python").1 == 1
        })
        .await;
        app.rest(
            Method::POST,
            "/api/v1/execute",
            &json!({ "code": "x", "session_id": "notebook" }),
        )
        .await
    },);
    assert!(answer.contains("41"), "{answer}");
    assert_eq!(second.status, StatusCode::CONFLICT);
    assert_eq!(second.json()["error"]["code"], "session_busy");
    // When the session ends, so do its variables.
    let closed = app.ask(Method::DELETE, "/api/v1/sessions/notebook").await;
    assert_eq!(closed.status, StatusCode::OK, "{}", closed.text());
    assert!(cell(&app, "x").await.contains("NameError"));
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn a_python_without_sessions_answers_once() {
    let app = TestApp::on_docker_with(&[("MCP_TOOLSET", "python")]).await;
    let code = "import sys\nprint(sum(range(10)))\nprint('careful', file=sys.stderr)";
    let tool = call(
        &app,
        "execute_python",
        json!({ "code": code, "timeout": 60 }),
    )
    .await;
    let rest = app
        .rest(
            Method::POST,
            "/execute",
            &json!({ "code": code, "timeout": 60 }),
        )
        .await;
    for answer in [tool, rest.json()] {
        assert_eq!(answer["stdout"], "45\n", "{answer}");
        assert_eq!(answer["stderr"], "careful\n");
        assert_eq!(
            (&answer["exit_code"], &answer["success"]),
            (&0.into(), &true.into())
        );
        assert!(answer["execution_time"].is_f64());
    }
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn a_package_that_was_installed_is_there_for_the_next_program() {
    let wheels = tempfile::tempdir().unwrap();
    std::fs::set_permissions(wheels.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let directory = wheels.path().display().to_string();
    let app = TestApp::on_docker_with(&[
        ("MCP_TOOLSET", "python"),
        ("PACKAGE_WHEELHOUSE", &directory),
        ("PIP_INDEX_URL", "http://127.0.0.1:9/simple"),
    ])
    .await;
    make_packages(&app, wheels.path()).await;
    let rest = async |body: Value| {
        let answer = app.rest(Method::POST, "/pip_install", &body).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
        answer.json()
    };
    let one = json!({ "package": "tinyone", "version": "1.0" });
    let installed = call(&app, "pip_install", one).await;
    insta::assert_json_snapshot!(installed, { ".installation_time" => "…" }, @r#"
    {
      "success": true,
      "message": "Installed tinyone 1.0, tiny-dep 1.5",
      "installed_version": "1.0",
      "installation_time": "…"
    }
    "#);
    let newer = rest(json!({ "package": "tinyone", "version": "latest" })).await;
    assert_eq!(newer["installed_version"], "2.0", "{newer}");
    let code = "import tinyone\nprint(tinyone.VALUE)";
    for answer in [
        call(&app, "execute_python", json!({ "code": code })).await,
        app.rest(Method::POST, "/execute", &json!({ "code": code }))
            .await
            .json(),
    ] {
        assert_eq!(answer["stdout"], "one 2.0\n", "{answer}");
    }
    let missing = rest(json!({ "package": "tinynothing" })).await;
    assert_eq!(
        (&missing["success"], &missing["installed_version"]),
        (&false.into(), &Value::Null)
    );
    // Nor is there an index to ask.
    assert_eq!(missing["code"], "package_offline", "{missing}");
    let wrong = json!({ "package": "../up" });
    let wrong = app.rest(Method::POST, "/pip_install", &wrong).await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
    assert_eq!(wrong.json()["error"]["code"], "invalid_requirement");
    app.assert_nothing_is_left().await;
}
