//! The operator ends what others have begun.

use std::fs;

use axum::http::Method;
use rstest::rstest;
use serde_json::{Value, json};

use super::{Administered, LONG, ask_with, key};
use crate::sse::{EventStream, post_sse, run};
use crate::support::engines::Engine;
use crate::support::{TOKEN, eventually};

const BUDGET: (&str, &str) = ("CALL_BUDGET", "2s");

impl Administered {
    /// The fields of events of the audit log, without what differs.
    fn events(&self, prefix: &str) -> String {
        let text = fs::read_to_string(&self.log).unwrap();
        let lines = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let some = lines.filter(|line| line["event"].as_str().unwrap().starts_with(prefix));
        let some = some.map(|mut line| {
            let fields = line.as_object_mut().unwrap();
            for name in ["seq", "at", "prev", "run"] {
                fields.shift_remove(name);
            }
            line.to_string()
        });
        some.collect::<Vec<_>>().join("\n")
    }

    async fn outcome(&self, token: &str, run: &Value) -> Value {
        let arguments = json!({ "runId": run["runId"], "waitSeconds": 30 });
        self.call(token, "get_run", arguments).await
    }
}

#[rstest]
#[case::on_fake(Engine::Fake)]
#[case::on_docker(Engine::WarmDocker)]
#[case::on_kubernetes(Engine::WarmKubernetes)]
#[tokio::test]
async fn a_deletion_ends_a_run_and_takes_the_files(#[case] engine: Engine) {
    let it = Administered::on(engine, "shell", &[BUDGET]).await;
    it.run(TOKEN, "demo", "echo kept > kept.txt").await;
    let kept = it
        .run(&it.research, "demo", "echo theirs > theirs.txt")
        .await;
    assert_eq!(kept["status"], "ok", "{kept}");
    let running = it.run(TOKEN, "demo", LONG).await;
    assert_eq!(running["status"], "running", "{running}");
    let key = key(&it.app, "demo");
    let path = format!("/admin/v1/conversations/{key}");
    let before = it.get(&path).await;
    assert_eq!(before["activeRuns"], 1, "{before}");
    assert_eq!(before["files"][0]["name"], "kept.txt");
    let deleted = it.ask(Method::DELETE, &path).await;
    assert_eq!(
        (deleted.status.as_u16(), deleted.json()),
        (200, json!({ "key": key, "deleted": true }))
    );
    assert_eq!(it.outcome(TOKEN, &running).await["status"], "cancelled");
    assert!(!it.app.workspace("demo").exists());
    for method in [Method::DELETE, Method::GET] {
        let again = it.ask(method, &path).await;
        assert_eq!(again.status, 404);
        assert_eq!(again.json()["error"]["code"], "conversation_not_found");
    }
    // What another tenant calls the same stays.
    let kept = it.run(&it.research, "demo", "cat theirs.txt").await;
    assert_eq!(kept["stdout"], "theirs\n");
    it.app.assert_nothing_is_left().await;
    insta::allow_duplicates! {
        insta::assert_snapshot!(it.events("admin"), @r#"{"event":"admin_conversation_deleted","via":"DELETE /admin/v1/conversations/{key}","client":"operator","client_version":"1.0","tenant":"default","conversation":"d37f9d488864"}"#);
    }
}

#[rstest]
#[case::on_fake(Engine::Fake)]
#[case::on_docker(Engine::Docker)]
#[tokio::test]
async fn a_cancelled_run_ends_as_cancelled_for_its_caller(#[case] engine: Engine) {
    let it = Administered::on(engine, "shell", &[BUDGET]).await;
    let running = it.run(&it.research, "demo", LONG).await;
    assert_eq!(running["status"], "running", "{running}");
    let id = running["runId"].as_str().unwrap();
    let path = format!("/admin/v1/runs/{id}");
    let cancelled = it.ask(Method::DELETE, &path).await;
    assert_eq!(cancelled.status, 200);
    let cancelled = cancelled.json();
    assert_eq!(
        (&cancelled["status"], &cancelled["stage"]),
        (&json!("cancelled"), &json!("ended"))
    );
    assert_eq!(
        it.outcome(&it.research, &running).await["status"],
        "cancelled"
    );
    // A second time changes nothing.
    let again = it.ask(Method::DELETE, &path).await;
    assert_eq!((again.status.as_u16(), again.json()), (200, cancelled));
    let unknown = it.ask(Method::DELETE, "/admin/v1/runs/run_1").await;
    assert_eq!(
        (unknown.status.as_u16(), &unknown.json()["error"]["code"]),
        (404, &json!("run_not_found"))
    );
    it.app.assert_nothing_is_left().await;
    insta::allow_duplicates! {
        insta::assert_snapshot!(it.events("admin"), @r#"{"event":"admin_run_cancelled","via":"DELETE /admin/v1/runs/{id}","client":"operator","client_version":"1.0","tenant":"research","subject":"5a3b548f2f29","token":"n8n","conversation":"c6fa824d5e21"}"#);
    }
}

#[tokio::test]
async fn a_deletion_that_ends_only_a_run_is_recorded() {
    let it = Administered::on(
        Engine::Fake,
        "shell",
        &[BUDGET, ("MAX_CONCURRENT_RUNS", "1")],
    )
    .await;
    it.run(&it.research, "demo", LONG).await;
    let waiting = it.run(TOKEN, "demo", LONG).await;
    let path = format!("/admin/v1/conversations/{}", key(&it.app, "demo"));
    assert!(!it.app.workspace("demo").exists());
    assert_eq!(it.ask(Method::DELETE, &path).await.status, 200);
    assert!(it.outcome(TOKEN, &waiting).await["status"] != "running");
    assert!(!it.app.workspace("demo").exists());
    it.app.assert_nothing_is_left().await;
    insta::assert_snapshot!(it.events("admin"), @r#"{"event":"admin_conversation_deleted","via":"DELETE /admin/v1/conversations/{key}","client":"operator","client_version":"1.0","tenant":"default","conversation":"d37f9d488864"}"#);
}

#[tokio::test]
async fn of_runs_with_one_id_the_meant_one_is_cancelled() {
    const ID: &str = "run_0123456789abcdef0123456789abcdef";
    let it = Administered::new().await;
    let mut streams = Vec::new();
    for token in [TOKEN, &it.research] {
        let mut message = run(1, &format!("echo begun\n{LONG}"));
        message["params"]["_meta"] = json!({ "progressToken": 1, "mcp-code-sandbox/run": ID });
        let mut request = post_sse(&message);
        let bearer = format!("Bearer {token}").parse().unwrap();
        request.headers_mut().insert("authorization", bearer);
        let mut stream = EventStream::open(&it.app, request).await;
        while stream.message().await["params"]["message"] != "begun\n" {}
        streams.push(stream);
    }
    let path = format!("/admin/v1/runs/{ID}");
    let which = it.ask(Method::DELETE, &path).await;
    assert_eq!(which.status, 400);
    insta::assert_snapshot!(which.json()["error"]["message"].as_str().unwrap(), @"2 callers have a run with the id run_0123456789abcdef0123456789abcdef: say whose is meant with `subject`, as GET /admin/v1/runs shows it");
    let one = it
        .ask(Method::DELETE, &format!("{path}?subject=5a3b548f2f29"))
        .await;
    assert_eq!(one.json()["tenant"], "research");
    let active = it.get("/admin/v1/runs?active=1").await;
    let active = active["runs"].as_array().unwrap();
    assert_eq!(active.len(), 1);
    assert_eq!(active[0]["tenant"], "default");
    drop(streams);
    let other = it
        .ask(Method::DELETE, &format!("{path}?subject=48904f832917"))
        .await;
    assert_eq!(other.json()["status"], "cancelled");
    it.app.assert_nothing_is_left().await;
}

#[rstest]
#[case::on_fake(Engine::Fake)]
#[case::on_docker(Engine::WarmDocker)]
#[tokio::test]
async fn kernels_and_warm_sandboxes_are_seen_and_ended(#[case] engine: Engine) {
    let (language, code) = match engine {
        Engine::Fake => ("notebook", "X=1"),
        _ => ("python", "x = 1"),
    };
    let it = Administered::on(engine, language, &[]).await;
    let arguments =
        json!({ "conversationId": "demo", "language": language, "code": code, "stateful": true });
    let outcome = it.call(TOKEN, "run_code", arguments).await;
    assert_eq!(outcome["status"], "ok", "{outcome}");
    let path = format!("/admin/v1/conversations/{}", key(&it.app, "demo"));
    assert_eq!(it.get(&path).await["kernels"], json!([language]));
    if engine.is_warm() {
        let arguments =
            json!({ "conversationId": "demo", "language": language, "code": "print(1)" });
        it.call(TOKEN, "run_code", arguments).await;
        assert_eq!(it.get(&path).await["warmSandboxes"], 1);
    }
    assert_eq!(it.ask(Method::DELETE, &path).await.status, 200);
    eventually("nothing of it is left", || {
        let pool = &it.app.app.parts.pool;
        it.app.app.parts.kernels.languages().is_empty() && pool.kept().is_empty()
    })
    .await;
    it.app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn nothing_is_ended_without_a_log_that_is_required() {
    let settings = [
        ("ADMIN_TOKEN", super::ADMIN_TOKEN),
        ("AUDIT_LOG", "/dev/full"),
        ("AUDIT_REQUIRED", "1"),
    ];
    let app = crate::support::TestApp::on_fake_with(&settings).await;
    let key = key(&app, "demo");
    fs::create_dir(app.root().join(&key)).unwrap();
    let bearer = format!("Bearer {}", super::ADMIN_TOKEN);
    let path = format!("/admin/v1/conversations/{key}");
    let answer = ask_with(&app, Method::DELETE, &path, &[("authorization", &bearer)]).await;
    assert_eq!(answer.json()["error"]["code"], "audit_unavailable");
    assert!(app.root().join(&key).exists());
    app.assert_nothing_is_left().await;
}
