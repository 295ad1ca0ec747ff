//! What goes on beside a kernel: deletions, calls that want another one, and runs without it.

use rstest::rstest;
use serde_json::json;

use super::{Dialect, FAKE, PYTHON, SOON, TYPESCRIPT, restarted, status};
use crate::support::engines::Engine;

#[rstest]
#[case::on_fake(Engine::Fake, FAKE)]
#[case::on_docker(Engine::Docker, PYTHON)]
#[case::on_docker_in_typescript(Engine::Docker, TYPESCRIPT)]
#[tokio::test]
async fn a_deletion_ends_the_kernel(#[case] engine: Engine, #[case] dialect: Dialect) {
    let app = &engine.start(dialect.language, &[SOON]).await;
    dialect.set_x(app).await;
    let delete = json!({ "conversationId": "demo" });
    app.call("delete_conversation", delete.clone()).await;
    let next = dialect.cell(app, dialect.show).await;
    assert_eq!(
        restarted(&next),
        Some("The conversation was deleted, and its kernel with it.")
    );
    // Also while it works, and at once.
    let running = dialect.begun(app).await;
    let deleted = app.call("delete_conversation", delete).await;
    assert_eq!(deleted["existed"], true);
    assert!(!app.workspace("demo").exists());
    let outcome = app
        .call(
            "get_run",
            json!({ "runId": running["runId"], "waitSeconds": 10 }),
        )
        .await;
    assert_eq!(status(&outcome), "cancelled");
    assert!(restarted(&dialect.cell(app, dialect.show).await).is_some());
    engine.finish(app).await;
}

#[rstest]
#[case::on_fake(Engine::Fake, FAKE)]
#[case::on_docker(Engine::Docker, PYTHON)]
#[case::on_docker_in_typescript(Engine::Docker, TYPESCRIPT)]
#[tokio::test]
async fn other_variables_for_the_interpreter_need_a_restart(
    #[case] engine: Engine,
    #[case] dialect: Dialect,
) {
    let app = &engine.start(dialect.language, &[]).await;
    dialect.set_x(app).await;
    let early = |value: &str| json!({ "environment": { dialect.early: value } });
    let refused = dialect.cell_with(app, dialect.show, early("UTC")).await;
    assert_eq!(status(&refused), "kernel_differs", "{refused}");
    assert!(refused["message"].as_str().unwrap().contains(dialect.early));
    assert_eq!(dialect.x(app).await, "41");
    let mut restart = early("UTC");
    restart["restart"] = true.into();
    let next = dialect.cell_with(app, dialect.set, restart).await;
    assert!(restarted(&next).is_some());
    // The same value again is not a difference, and neither is none.
    let same = dialect.cell_with(app, dialect.show, early("UTC")).await;
    assert_eq!((status(&same), restarted(&same)), ("ok", None), "{same}");
    assert_eq!(dialect.x(app).await, "41");
    engine.finish(app).await;
}

#[rstest]
#[case::on_fake(Engine::Fake, FAKE)]
#[case::on_docker(Engine::Docker, PYTHON)]
#[case::on_docker_in_typescript(Engine::Docker, TYPESCRIPT)]
#[tokio::test]
async fn stateless_runs_leave_the_kernel_alone(#[case] engine: Engine, #[case] dialect: Dialect) {
    let app = &engine.start(dialect.language, &[]).await;
    dialect.set_x(app).await;
    let stateless = dialect.run(app, dialect.show).await;
    assert_eq!(
        (status(&stateless), &stateless["output"]),
        ("ok", &json!("\n"))
    );
    assert_eq!(dialect.x(app).await, "41");
    // At the same time as well, and on the same files.
    let (nap, file) = tokio::join!(
        dialect.cell(app, dialect.nap),
        dialect.run(app, dialect.file)
    );
    assert_eq!((status(&nap), status(&file)), ("ok", "ok"));
    assert_eq!(dialect.x(app).await, "41");
    engine.finish(app).await;
}
