//! Addresses for clients of other code interpreters, on the real engine: what Dify and LibreChat send, and vLLM's way to connect.

use axum::http::{Method, Request};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::dialects::nothing_is_kept;
use crate::dialects::python_tool::Client;
use crate::support::{TOKEN, TestApp, eventually};

/// Both dialects, with the memory and the time that pandas needs on a busy machine.
const SETTINGS: &[(&str, &str)] = &[("DIALECTS", "dify,python_tool"), ("RUN_TIMEOUT", "120s")];
/// What a node's result is between.
const TAG: &str = "<<RESULT>>";

async fn app(settings: &[(&str, &str)]) -> TestApp {
    let settings: Vec<_> = SETTINGS.iter().chain(settings).copied().collect();
    TestApp::on_docker_with(&settings).await
}

/// Runs a node's program. Returns the whole answer.
async fn node(app: &TestApp, language: &str, code: &str, preload: &str) -> Value {
    let body =
        json!({ "language": language, "code": code, "preload": preload, "enable_network": true });
    let request = Request::builder()
        .method(Method::POST)
        .uri("/dify/v1/sandbox/run")
        .header("host", "localhost:8080")
        .header("x-api-key", TOKEN);
    let answer = app.send(request.body(body.to_string().into()).unwrap());
    answer.await.json()
}

/// The result of a node that did not fail.
async fn result(app: &TestApp, language: &str, code: &str, preload: &str) -> String {
    let answer = node(app, language, code, preload).await;
    assert_eq!(
        (&answer["code"], &answer["data"]["error"]),
        (&json!(0), &json!("")),
        "{answer}"
    );
    let stdout = answer["data"]["stdout"].as_str().unwrap();
    let (_, rest) = stdout.split_once(TAG).unwrap();
    rest.rsplit_once(TAG).unwrap().0.to_owned()
}

async fn error(app: &TestApp, language: &str, code: &str) -> String {
    let answer = node(app, language, code, "").await;
    assert_eq!(answer["code"], 0, "{answer}");
    answer["data"]["error"].as_str().unwrap().to_owned()
}

/// A code node in Python, as Dify makes it of a function and its inputs.
fn python(function: &str, inputs: &Value) -> String {
    let inputs = BASE64_STANDARD.encode(inputs.to_string());
    format!(
        "{function}\n\nimport json\nfrom base64 import b64decode\n\n\
         inputs_obj = json.loads(b64decode('{inputs}').decode('utf-8'))\n\n\
         output_obj = main(**inputs_obj)\n\n\
         output_json = json.dumps(output_obj, indent=4)\nresult = f'''{TAG}{{output_json}}{TAG}'''\nprint(result)\n"
    )
}

/// A code node in JavaScript, which declares none of its variables.
fn javascript(function: &str, inputs: &Value) -> String {
    format!(
        "{function}\n\noutput = main({inputs})\n\noutput = JSON.stringify(output)\n\
         result = `{TAG}${{output}}{TAG}`\nconsole.log(result)\n"
    )
}

/// A template node.
fn template(template: &str, inputs: &Value) -> String {
    let inputs = BASE64_STANDARD.encode(inputs.to_string());
    format!(
        "def main(**inputs):\n    import jinja2\n    template = jinja2.Template('''{template}''')\n    \
         return template.render(**inputs)\n\nimport json\nfrom base64 import b64decode\n\n\
         inputs_obj = json.loads(b64decode('{inputs}').decode('utf-8'))\n\noutput = main(**inputs_obj)\n\n\
         result = f'''{TAG}{{output}}{TAG}'''\nprint(result)\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_of_each_kind_have_their_results_exactly() {
    let app = app(&[]).await;
    let pandas = "import pandas as pd\nimport warnings\ndef main(a: list, b: str) -> dict:\n    \
        warnings.warn('old')\n    return {'sum': int(pd.Series(a).sum()), 'b': b}";
    let code = python(pandas, &json!({ "a": [1, 2, 39], "b": "ä\n<b>" }));
    let found = result(&app, "python3", &code, "").await;
    assert_eq!(
        found,
        "{\n    \"sum\": 42,\n    \"b\": \"\\u00e4\\n<b>\"\n}"
    );
    let function = "function main({a, b}) {\n  const path = require('path'), _ = require('lodash')\n  \
        return {sum: a + b.length, at: path.join('x', 'y'), last: _.last([1, 2]), strict: (function () { return this })() === undefined}\n}";
    let code = javascript(function, &json!({ "a": 1, "b": "\u{2028}ü`${x}" }));
    let found = result(&app, "nodejs", &code, "").await;
    assert_eq!(found, r#"{"sum":8,"at":"x/y","last":2,"strict":false}"#);
    let preload = "\nimport jinja2\nfrom base64 import b64decode\n\ndef _jinja2_preload_():\n    \
        template = jinja2.Template('{{s}}')\n    template.render(s='a')\n\n_jinja2_preload_()\n";
    let code = template(
        "  {{ name }}:\\t{% for x in all %}\\n* {{ x }}{% endfor %}\\n\\n",
        &json!({ "name": "Zoë", "all": [1, "\u{1b}[1mb\r"] }),
    );
    let found = result(&app, "python3", &code, preload).await;
    assert_eq!(found, "  Zoë:\t\n* 1\n* \u{1b}[1mb\r\n");
    nothing_is_kept(&app).await;
    app.assert_nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_fails_says_why() {
    let app = app(&[]).await;
    let raising = "def main():\n    raise ValueError('no such row')";
    let said = error(&app, "python3", &python(raising, &json!({}))).await;
    assert!(said.contains("ValueError: no such row"), "{said}");
    let said = error(
        &app,
        "nodejs",
        &javascript(
            "function main() { throw new Error('no such row') }",
            &json!({}),
        ),
    )
    .await;
    assert!(said.contains("no such row"), "{said}");
    // More than a run keeps is no result.
    let said = error(
        &app,
        "python3",
        &python("def main():\n    return {'a': 'x' * 5_000_000}", &json!({})),
    )
    .await;
    assert!(said.contains("RUN_OUTPUT_LIMIT"), "{said}");
    // Nothing reaches a network, whatever Dify asks for.
    let call = "def main():\n    import urllib.request\n    urllib.request.urlopen('http://192.0.2.1', timeout=5)";
    let said = error(&app, "python3", &python(call, &json!({}))).await;
    assert!(said.contains("URLError"), "{said}");
    nothing_is_kept(&app).await;
    app.assert_nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_result_is_whole_where_a_run_keeps_it() {
    let app = app(&[("RUN_OUTPUT_LIMIT", "8m")]).await;
    let code = python("def main():\n    return {'a': 'x' * 5_000_000}", &json!({}));
    let found = result(&app, "python3", &code, "").await;
    assert_eq!(
        found,
        format!("{{\n    \"a\": \"{}\"\n}}", "x".repeat(5_000_000))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_time_and_places_hold() {
    let settings = [
        ("DIALECTS", "dify"),
        ("RUN_TIMEOUT", "5s"),
        ("MAX_CONCURRENT_RUNS", "1"),
        ("MAX_QUEUED_RUNS", "0"),
    ];
    let app = TestApp::on_docker_with(&settings).await;
    let second = async {
        eventually("the run is in progress", || app.app.parts.gate.count() == 1).await;
        node(&app, "python3", "print(1)", "").await
    };
    let (slow, refused) = tokio::join!(
        error(&app, "python3", "import time\ntime.sleep(600)"),
        second
    );
    assert!(slow.contains("its time limit of 5 s"), "{slow}");
    assert_eq!(
        (&refused["code"], &refused["data"]),
        (&json!(-429), &json!(null))
    );
    eventually("the place is free", || app.app.parts.gate.count() == 0).await;
    nothing_is_kept(&app).await;
    app.assert_nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gpt_oss_has_its_python() {
    let app = app(&[]).await;
    let mut client = Client::open(&app, &format!("/t/{TOKEN}/python/sse")).await;
    client.greet().await;
    let seen = [
        client.python("x = 6\nprint(x * 7)").await,
        client.python("print(x)").await,
        client
            .python("import numpy as np\nprint(np.arange(3).sum())")
            .await,
    ];
    let texts = seen.map(|answer| answer["content"][0]["text"].as_str().unwrap().to_owned());
    assert_eq!((&*texts[0], &*texts[2]), ("42\n", "3\n"));
    assert!(
        texts[1].ends_with("NameError: name 'x' is not defined\n"),
        "{}",
        texts[1]
    );
    nothing_is_kept(&app).await;
    drop(client);
    app.assert_nothing_is_left().await;
}

/// What LibreChat's tool for Bash sends, with the files that the answer before had.
async fn bash(app: &TestApp, code: &str, args: &[&str], before: &Value) -> Value {
    let none = Vec::new();
    let files = before["files"].as_array().unwrap_or(&none).iter();
    let files: Vec<_> = files
        .map(|file| {
            json!({
                "id": file["id"], "storage_session_id": file["storage_session_id"], "name": file["name"],
                "kind": "user", "resource_id": "u1"
            })
        })
        .collect();
    let body =
        json!({ "lang": "bash", "code": code, "args": args, "files": files, "user_id": "u1" });
    let token = BASE64_STANDARD.encode(format!("{TOKEN}:"));
    let request = Request::post("/librechat/v1/exec")
        .header("host", "localhost:8080")
        .header("authorization", format!("Basic {token}"));
    let answer = app.send(request.body(body.to_string().into()).unwrap());
    answer.await.json()
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_librechat_go_from_one_program_to_the_next() {
    let app = TestApp::on_docker_with(&[("DIALECTS", "librechat")]).await;
    let code = "cd /mnt/data; mkdir -p sub .cache; echo x > .cache/x; echo a > a.txt; echo b > sub/b.txt; echo c > c.txt; echo \"$1\"";
    let first = bash(&app, code, &["it's an argument"], &json!(null)).await;
    assert_eq!(first["stdout"], "it's an argument\n", "{first}");
    let code =
        "cat /mnt/data/sub/b.txt; echo more >> /mnt/data/a.txt; rm /mnt/data/c.txt; kill -9 $$";
    let second = bash(&app, code, &[], &first).await;
    let names = |answer: &Value, kind: &str| {
        let files = answer["files"].as_array().unwrap().iter();
        let of_kind = files.filter(|file| kind.is_empty() || file.get(kind).is_some());
        let names: Vec<_> = of_kind
            .map(|file| file["name"].as_str().unwrap().to_owned())
            .collect();
        names.join(" ")
    };
    insta::assert_snapshot!(
        [names(&first, ""), names(&second, ""), names(&second, "inherited"), names(&second, "modified_from")].join("\n"),
        @r"
    a.txt c.txt sub/b.txt
    a.txt sub/b.txt
    sub/b.txt
    a.txt
    "
    );
    assert_eq!(
        [&second["stdout"], &second["deleted_files"], &second["code"]],
        [&json!("b\n"), &json!(["c.txt"]), &json!(137)],
        "{second}"
    );
    let third = bash(&app, "cat /mnt/data/a.txt", &[], &second).await;
    assert_eq!(third["stdout"], "a\nmore\n", "{third}");
    app.assert_nothing_is_left().await;
}
