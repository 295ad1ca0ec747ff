//! Warm sandboxes on the fake engine, with paused time: who gets which, when they go, and that nothing is left whatever
//! fails.

use std::collections::HashSet;
use std::time::Duration;

use mcp_code_sandbox::executor::fake::{FakeExecutor, Trouble};
use mcp_code_sandbox::executor::{ErrorKind, Executor as _};
use serde_json::json;

use crate::support::{ON_A_CLUSTER, TestApp, eventually};

const WARM: [(&str, &str); 2] = [("POOL_SIZE", "2"), ("SANDBOX_REUSE", "conversation")];

/// A server whose pool is full.
async fn warm_app(settings: &[(&str, &str)]) -> (TestApp, FakeExecutor) {
    let mut all: Vec<_> = WARM.to_vec();
    all.splice(0..0, settings.iter().copied());
    let app = TestApp::on_fake_with(&all).await;
    let fake = app.fake.clone().unwrap();
    full(&app).await;
    (app, fake)
}

async fn full(app: &TestApp) {
    eventually("the pool is full", || app.app.parts.pool.count().0 == 2).await;
}

/// Waits until a sandbox has come back to its conversation.
async fn owned(app: &TestApp, count: usize) {
    eventually("the conversations have their sandboxes", || {
        app.app.parts.pool.count().1 == count
    })
    .await;
}

async fn run_in(app: &TestApp, conversation: &str, code: &str) -> serde_json::Value {
    let arguments = json!({ "conversationId": conversation, "language": "shell", "code": code });
    app.call("run_code", arguments).await
}

/// Names in the private directory: slots, when nothing is being uploaded or deleted.
fn slots(app: &TestApp) -> usize {
    std::fs::read_dir(app.root().join(".tmp")).unwrap().count()
}

#[tokio::test(start_paused = true)]
async fn a_new_conversation_gets_one_from_the_pool_and_keeps_it() {
    let (app, fake) = warm_app(&[]).await;
    assert_eq!((fake.made(), slots(&app)), (2, 2));
    assert_eq!(
        run_in(&app, "a", "echo one > f").await["files"][0]["name"],
        "f"
    );
    assert!(
        app.workspace("a").join("f").exists(),
        "the slot has become the workspace"
    );
    owned(&app, 1).await;
    full(&app).await;
    assert_eq!((fake.made(), slots(&app)), (3, 2));
    for _ in 0..5 {
        assert_eq!(run_in(&app, "a", "cat f").await["stdout"], "one\n");
        owned(&app, 1).await;
    }
    assert_eq!(fake.made(), 3, "further runs need no container");
    app.assert_nothing_is_left().await;
    assert_eq!(slots(&app), 0);
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_outlives_every_end_of_its_program() {
    let (app, fake) = warm_app(&[("RUN_OUTPUT_LIMIT", "1k")]).await;
    run_in(&app, "a", "echo one > f").await;
    owned(&app, 1).await;
    full(&app).await;
    let made = fake.made();
    for (code, status) in [("sleep 60", "timeout"), ("yes", "output_limit")] {
        let arguments = json!({
            "conversationId": "a", "language": "shell", "code": code, "timeoutSeconds": 1
        });
        assert_eq!(app.call("run_code", arguments).await["status"], status);
        owned(&app, 1).await;
        assert_eq!(run_in(&app, "a", "cat f").await["stdout"], "one\n");
        owned(&app, 1).await;
    }
    assert_eq!(fake.made(), made);
    app.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_run_after_an_upload_is_warm() {
    let (app, fake) = warm_app(&[]).await;
    app.upload("in", b"uploaded\n").await;
    owned(&app, 1).await;
    full(&app).await;
    let made = fake.made();
    assert_eq!(app.run("shell", "cat in").await["stdout"], "uploaded\n");
    assert_eq!(fake.made(), made);
    app.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn an_old_conversation_is_started_for_and_stays_warm_then() {
    let (app, fake) = warm_app(&[("SANDBOX_IDLE_TTL", "5m")]).await;
    run_in(&app, "a", "echo hi").await;
    owned(&app, 1).await;
    tokio::time::sleep(Duration::from_secs(301)).await;
    owned(&app, 0).await;
    full(&app).await;
    let made = fake.made();
    assert_eq!(run_in(&app, "a", "echo hi").await["stdout"], "hi\n");
    owned(&app, 1).await;
    assert_eq!(fake.made(), made + 1);
    assert_eq!(run_in(&app, "a", "echo hi").await["stdout"], "hi\n");
    assert_eq!(fake.made(), made + 1);
    app.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn two_runs_at_once_in_one_conversation_both_work() {
    let (app, _fake) = warm_app(&[]).await;
    let (first, second) = tokio::join!(
        run_in(&app, "a", "sleep 1\necho first"),
        run_in(&app, "a", "sleep 1\necho second")
    );
    assert_eq!(
        (&first["stdout"], &second["stdout"]),
        (&json!("first\n"), &json!("second\n"))
    );
    app.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn the_least_recently_used_one_makes_room() {
    let (app, fake) = warm_app(&[("MAX_WARM_SANDBOXES", "4")]).await;
    for conversation in ["a", "b", "c"] {
        run_in(&app, conversation, "echo hi").await;
        eventually("the run is over", || app.app.parts.gate.count() == 0).await;
    }
    eventually("there are no more than four", || {
        fake.container_count() <= 4
    })
    .await;
    assert_eq!(
        run_in(&app, "a", "echo still works").await["stdout"],
        "still works\n"
    );
    app.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn the_most_in_all_is_kept_and_shared() {
    let warm = [
        ("MAX_WARM_SANDBOXES", "4"),
        ("POOL_SIZE", "4"),
        ("SANDBOX_REUSE", "conversation"),
    ];
    let app = TestApp::on_fake_with(&warm).await;
    let fake = app.fake.clone().unwrap();
    eventually("the pool is full", || app.app.parts.pool.count() == (4, 0)).await;
    for (number, conversation) in ["a", "b"].into_iter().enumerate() {
        run_in(&app, conversation, "echo hi").await;
        owned(&app, number + 1).await;
        settled(&app, &fake).await;
        assert_eq!(fake.container_count(), 4);
    }
    // Conversations that take turns do not take each other's sandboxes.
    let made = fake.made();
    for conversation in ["a", "b", "a", "b"] {
        assert_eq!(
            run_in(&app, conversation, "echo hi").await["stdout"],
            "hi\n"
        );
        owned(&app, 2).await;
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!((fake.made(), app.app.parts.pool.count()), (made, (2, 2)));
    app.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_container_that_is_being_made_is_waited_for() {
    let app = TestApp::on_fake().await;
    let fake = app.fake.clone().unwrap();
    fake.slow_down(Duration::from_secs(1));
    let stop = async {
        eventually("it is being made", || fake.made() == 1).await;
        app.app.shut_down().await;
        fake.container_count()
    };
    let (outcome, left) = tokio::join!(run_in(&app, "a", "echo hi"), stop);
    assert_eq!((&outcome["status"], left), (&json!("cancelled"), 0));
}

#[tokio::test(start_paused = true)]
async fn without_reuse_each_run_has_a_sandbox_of_its_own() {
    let (app, fake) = warm_app(&[("SANDBOX_REUSE", "never")]).await;
    for conversation in ["a", "b"] {
        assert_eq!(
            run_in(&app, conversation, "echo hi").await["stdout"],
            "hi\n"
        );
        full(&app).await;
        eventually("its container is gone", || fake.container_count() == 2).await;
    }
    assert_eq!((fake.made(), app.app.parts.pool.count()), (4, (2, 0)));
    app.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_conversation_starts_from_nothing() {
    let (app, _fake) = warm_app(&[]).await;
    run_in(&app, "a", "echo old > f").await;
    owned(&app, 1).await;
    app.call("delete_conversation", json!({ "conversationId": "a" }))
        .await;
    owned(&app, 0).await;
    let again = run_in(&app, "a", "cat f").await;
    assert_eq!(again["stderr"], "cat: f: No such file or directory\n");
    app.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_workspace_that_was_replaced_does_not_meet_the_old_sandbox() {
    let (app, _fake) = warm_app(&[]).await;
    run_in(&app, "a", "echo old > f").await;
    owned(&app, 1).await;
    std::fs::rename(app.workspace("a"), app.root().join("elsewhere")).unwrap();
    let again = run_in(&app, "a", "echo new > f").await;
    assert_eq!(again["files"][0]["name"], "f");
    assert_eq!(
        std::fs::read_to_string(app.workspace("a").join("f")).unwrap(),
        "new\n"
    );
    app.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_rebuilt_image_replaces_what_is_warm() {
    let (app, fake) = warm_app(&[]).await;
    run_in(&app, "a", "echo hi").await;
    owned(&app, 1).await;
    fake.add_image("shell", "", 2);
    eventually("only the new image is used", || {
        let specs = fake.specs();
        specs.len() == 2 && specs.iter().all(|spec| spec.image == "sha256:shell-2")
    })
    .await;
    assert_eq!(run_in(&app, "a", "echo hi").await["stdout"], "hi\n");
    app.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_somebody_removed_is_not_used() {
    let (app, fake) = warm_app(&[]).await;
    fake.remove_all();
    assert_eq!(run_in(&app, "a", "echo hi").await["stdout"], "hi\n");
    full(&app).await;
    app.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn failures_at_every_step_leak_nothing() {
    let (app, fake) = warm_app(&[]).await;
    for operation in [
        "create a container",
        "attach to a container",
        "start a container",
        "remove a container",
    ] {
        fake.trouble(Trouble {
            engine_down: false,
            failing: Some(operation),
        });
        for conversation in ["a", "b", "c"] {
            let name = format!("{operation} {conversation}");
            let status = run_in(&app, &name, "echo hi").await["status"].clone();
            assert!(status == "ok" || status == "engine_lost", "{status}");
        }
        tokio::time::sleep(Duration::from_secs(20)).await;
        fake.trouble(Trouble::default());
        full(&app).await;
        settled(&app, &fake).await;
    }
    app.assert_nothing_is_left().await;
    assert_eq!(slots(&app), 0);
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_comes_back_finds_the_pool_filled_again() {
    let (app, fake) = warm_app(&[]).await;
    run_in(&app, "a", "echo hi").await;
    owned(&app, 1).await;
    fake.trouble(Trouble {
        engine_down: true,
        failing: None,
    });
    eventually("dead sandboxes are forgotten", || {
        app.app.parts.pool.count() == (0, 0)
    })
    .await;
    fake.trouble(Trouble::default());
    full(&app).await;
    settled(&app, &fake).await;
    assert_eq!(run_in(&app, "a", "echo hi").await["stdout"], "hi\n");
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn a_leftover_that_stays_does_not_keep_the_others() {
    let (app, fake) = warm_app(&[]).await;
    let mut spec = fake.specs().remove(0);
    spec.labels
        .insert("sandbox.server".to_owned(), "gone".to_owned());
    let mut left = Vec::new();
    for _ in 0..20 {
        left.push(fake.create(&spec).await.unwrap());
    }
    let stuck = HashSet::from([left[0].clone(), left[1].clone()]);
    fake.hold_on_to(&left[0], ErrorKind::Refused);
    // As if the attempt hung.
    fake.hold_on_to(&left[1], ErrorKind::Unavailable);
    let launcher = &app.app.parts.launcher;
    let removed = launcher.reap(|server| server == "gone").await;
    assert_eq!(removed.unwrap(), 18);
    let rest = fake.containers("sandbox.server", "gone").await.unwrap();
    let rest: HashSet<_> = rest.into_iter().map(|info| info.id).collect();
    assert_eq!(rest, stuck);
}

#[tokio::test(start_paused = true)]
async fn abandoned_starts_are_limited() {
    let (app, fake) = warm_app(&[]).await;
    fake.slow_down(Duration::from_mins(1));
    let patience = Duration::from_millis(10);
    for number in 0..1_000 {
        let name = format!("conversation {number}");
        let _ = tokio::time::timeout(patience, run_in(&app, &name, "echo hi")).await;
    }
    let there = fake.container_count();
    // A few for each core, so this holds up to 100 cores.
    assert!(there < 450, "{there} containers");
    fake.slow_down(Duration::ZERO);
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(run_in(&app, "a", "echo hi").await["stdout"], "hi\n");
    app.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_run_waits_neither_for_an_engine_that_hangs_nor_for_ever() {
    let app = TestApp::on_fake_with(&[("CALL_BUDGET", "1h")]).await;
    let fake = app.fake.clone().unwrap();
    let trouble = |failing| {
        fake.trouble(Trouble {
            engine_down: false,
            failing,
        });
    };
    let views = app.app.parts.gate.catalog.watch();
    fake.slow_down(Duration::from_mins(10));
    let late = run_in(&app, "a", "echo hi").await;
    let hint = late["hint"].as_str().unwrap();
    assert!(hint.contains("it took longer than 60 s"), "{late}");

    // One unsuccessful check is not yet a loss.
    trouble(Some("reach the container engine"));
    tokio::time::sleep(Duration::from_secs(2)).await;
    trouble(None);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(
        !views.has_changed().unwrap(),
        "{:?}",
        app.app.parts.gate.catalog.engine()
    );

    trouble(Some("reach the container engine"));
    let lost = run_in(&app, "b", "echo hi").await;
    let hint = lost["hint"].as_str().unwrap();
    assert!(
        hint.contains("failed to reach the container engine"),
        "{lost}"
    );
    assert_eq!(app.get("/readyz").await.status, 503);
    trouble(None);
    fake.slow_down(Duration::ZERO);
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(run_in(&app, "a", "echo hi").await["stdout"], "hi\n");
    app.assert_nothing_is_left().await;
}

/// Waits until every container and every slot belongs to a warm sandbox.
async fn settled(app: &TestApp, fake: &FakeExecutor) {
    eventually("every container is a warm sandbox", || {
        let (pooled, owned) = app.app.parts.pool.count();
        fake.container_count() == pooled + owned && slots(app) == pooled
    })
    .await;
}

/// A cluster ends every sandbox one day, even in constant use.
#[tokio::test(start_paused = true)]
async fn on_a_cluster_no_sandbox_gets_too_old_for_a_run() {
    let settings = [
        ("SANDBOX_REUSE", "conversation"),
        ("SANDBOX_IDLE_TTL", "3h"),
    ];
    let app = TestApp::on_fake_with(&[&ON_A_CLUSTER[..], &settings].concat()).await;
    for hours in 0..24 {
        assert_eq!(run_in(&app, "demo", "echo hi").await["status"], "ok");
        owned(&app, 1).await;
        assert_eq!((app.starts("cold"), app.starts("own")), (1, hours));
        tokio::time::sleep(Duration::from_hours(1)).await;
    }
    assert_eq!(run_in(&app, "demo", "echo hi").await["status"], "ok");
    assert_eq!((app.starts("cold"), app.starts("own")), (2, 23));
}
