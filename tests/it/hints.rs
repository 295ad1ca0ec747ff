//! Hints that an image has for what its programs print when they fail.

use mcp_code_sandbox::runner::hints::Hints;
use serde_json::{Value, json};

use crate::support::{TestApp, eventually};

const TABLE: &str = r#"[
    {"line": "^no (?<name>[a-z ]+)$", "say": "{name} is {of}.", "of": {"a": "there as A"}, "remedy": "install", "package": "the-{name}"},
    {"line": "^no (?<name>[a-z ]+)$", "say": "There is no {name}.", "stdin": false},
    {"line": "^no (?<name>[a-z ]+)$", "say": "stdin has no {name}.", "stdin": true},
    {"line": "^variables", "say": "Run with stateful: true.", "stateful": false, "remedy": "stateful"},
    {"line": "^variables", "say": "It is a cell.", "stateful": true},
    {"line": "^network", "say": "There is none.", "network": false},
    {"line": "^network", "say": "There is one.", "network": true},
    {"line": "^warning", "say": "It matters.", "always": true}
]"#;

async fn hint(app: &TestApp, language: &str, code: &str, more: Value) -> String {
    let mut arguments = json!({ "conversationId": "demo", "language": language, "code": code });
    let more = more.as_object().unwrap().clone();
    arguments.as_object_mut().unwrap().extend(more);
    let outcome = app.call("run_code", arguments).await;
    let status = outcome["status"]
        .as_str()
        .unwrap_or_else(|| panic!("{outcome}"));
    let hint = outcome["hint"].as_str().unwrap_or_default();
    format!("{status}: {hint} {}", outcome["remedy"])
}

#[tokio::test]
async fn the_image_says_what_to_do_about_a_line() {
    let app = TestApp::on_fake_with_notebook(&[]).await;
    let fake = app.fake.as_ref().unwrap();
    fake.label("shell", "sandbox.hints", TABLE);
    fake.label("notebook", "sandbox.hints", TABLE);
    eventually("the tables are read", || {
        let view = app.app.parts.gate.catalog.view();
        let has = |name| {
            view.find(name)
                .is_some_and(|runner| runner.hints != Hints::default())
        };
        has("shell") && has("notebook")
    })
    .await;
    let mut told = Vec::new();
    for (language, code, more) in [
        ("shell", "echo no a >&2\nexit 1", json!({})),
        ("shell", "echo no b >&2\nexit 1", json!({})),
        ("shell", "echo no b >&2\nexit 1", json!({ "stdin": "x" })),
        ("shell", "echo no call of tools >&2\nexit 1", json!({})),
        ("shell", "echo no b", json!({})),
        ("shell", "echo no b >&2", json!({})),
        ("shell", "echo no b >&2\necho warning >&2", json!({})),
        ("shell", "echo network >&2\nexit 1", json!({})),
        ("shell", "echo variables >&2\nexit 1", json!({})),
        (
            "notebook",
            "echo variables >&2\nnothing",
            json!({ "stateful": true }),
        ),
    ] {
        told.push(hint(&app, language, code, more).await);
    }
    insta::assert_snapshot!(told.join("\n"), @r#"
    error: a is there as A. {"kind":"install","package":"the-a"}
    error: There is no b. {"kind":"program"}
    error: stdin has no b. {"kind":"program"}
    error: The program ended with exit code 1: see stderr. null
    ok:  null
    ok:  null
    ok: It matters. {"kind":"program"}
    error: There is none. {"kind":"program"}
    error: Run with stateful: true. {"kind":"stateful"}
    error: The kernel and its variables live on. It is a cell. {"kind":"program"}
    "#);
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn a_table_that_is_none_is_left_out() {
    let app = TestApp::on_fake().await;
    app.fake
        .as_ref()
        .unwrap()
        .label("shell", "sandbox.hints", "[{]");
    eventually("the label is read", || {
        let view = app.app.parts.gate.catalog.view();
        let shell = view.find("shell").unwrap();
        shell
            .ignored
            .iter()
            .any(|label| label.starts_with("label sandbox.hints: it is not"))
    })
    .await;
    let told = hint(&app, "shell", "echo no a >&2\nexit 1", json!({})).await;
    assert_eq!(
        told,
        "error: The program ended with exit code 1: see stderr. null"
    );
    app.assert_nothing_is_left().await;
}
