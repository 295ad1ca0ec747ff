//! Stateful runs on the fake engine only, where time and trouble can be made.

use std::time::Duration;

use axum::body::Body;
use axum::http::Method;
use mcp_code_sandbox::executor::fake::Trouble;
use mcp_code_sandbox::executor::spec::NetworkAccess;
use serde_json::json;
use tokio::time::Instant;

use super::{FAKE, restarted, status};
use crate::support::{ON_A_CLUSTER, TestApp, eventually, get};

#[tokio::test]
async fn languages_without_a_kernel_say_so() {
    let app = TestApp::on_fake_with_notebook(&[]).await;
    let stateful = json!({ "language": "shell", "code": "", "stateful": true });
    insta::assert_snapshot!(app.call("run_code", stateful).await["message"].as_str().unwrap(), @"stateful: true is not available for shell here: leave it out, or use one of notebook");
    let app = TestApp::on_fake_with_notebook(&[("MAX_KERNELS", "0")]).await;
    let stateful = json!({ "language": "notebook", "code": "", "stateful": true });
    let refused = app.call("run_code", stateful).await;
    assert_eq!(status(&refused), "stateful_unavailable");
    insta::assert_snapshot!(refused["message"].as_str().unwrap(), @"stateful: true is not available for notebook here: no language keeps variables, so leave stateful out");
    let runners = app.call("list_runners", json!({})).await;
    assert_eq!(runners["runners"][0]["stateful"], false);
    // Nobody asked for variables here: they are kept where they can be.
    let body = json!({ "language": "notebook", "code": "echo hi", "session_id": "demo" });
    let answer = app.rest(Method::POST, "/api/v1/execute", &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[tokio::test(start_paused = true)]
async fn a_kernel_ends_when_its_time_has_come_and_no_earlier() {
    let app = TestApp::on_fake_with_notebook(&[("KERNEL_TIMEOUT", "300s")]).await;
    FAKE.set_x(&app).await;
    tokio::time::sleep(Duration::from_secs(299)).await;
    assert_eq!(FAKE.x(&app).await, "41");
    tokio::time::sleep(Duration::from_secs(299)).await;
    assert_eq!(FAKE.x(&app).await, "41");
    tokio::time::sleep(Duration::from_secs(302)).await;
    assert_eq!(app.app.parts.kernels.count_of("notebook"), (0, 0));
    let next = FAKE.cell(&app, FAKE.show).await;
    assert!(restarted(&next).unwrap().contains("not used for too long"));
}

#[tokio::test]
async fn a_new_image_ends_the_kernels_of_the_old() {
    let app = TestApp::on_fake_with_notebook(&[]).await;
    FAKE.set_x(&app).await;
    app.fake.as_ref().unwrap().add_notebook("notebook", 2);
    eventually("it has ended", || {
        app.app.parts.kernels.count_of("notebook") == (0, 0)
    })
    .await;
    let next = FAKE.cell(&app, FAKE.show).await;
    assert!(restarted(&next).unwrap().contains("image was replaced"));
}

/// A cluster ends every sandbox one day, whatever it does.
#[tokio::test(start_paused = true)]
async fn on_a_cluster_a_kernel_ends_in_time() {
    let settings = [&ON_A_CLUSTER[..], &[("KERNEL_TIMEOUT", "3h")]].concat();
    let app = TestApp::on_fake_with_notebook(&settings).await;
    FAKE.set_x(&app).await;
    for _ in 0..11 {
        tokio::time::sleep(Duration::from_hours(2)).await;
        assert_eq!(FAKE.x(&app).await, "41");
    }
    tokio::time::sleep(Duration::from_hours(2)).await;
    let next = FAKE.cell(&app, FAKE.show).await;
    let restarted = restarted(&next).unwrap();
    assert!(restarted.contains("as long as one may"), "{restarted}");
}

#[tokio::test(start_paused = true)]
async fn a_kernel_may_rest_for_days() {
    let settings = [("KERNEL_TIMEOUT", "48h"), ("SANDBOX_IDLE_TTL", "1m")];
    let app = TestApp::on_fake_with_notebook(&settings).await;
    FAKE.set_x(&app).await;
    tokio::time::sleep(Duration::from_hours(47)).await;
    assert_eq!(FAKE.x(&app).await, "41");
}

#[tokio::test]
async fn a_call_that_is_turned_away_takes_no_kernel() {
    let settings = [
        ("MAX_KERNELS", "1"),
        ("MAX_CONCURRENT_RUNS", "1"),
        ("MAX_QUEUED_RUNS", "0"),
    ];
    let app = TestApp::on_fake_with_notebook(&settings).await;
    FAKE.set_x(&app).await;
    let turned_away = async {
        eventually("the only place is taken", || {
            app.app.parts.gate.admission.running() == 1
        })
        .await;
        let mut arguments = FAKE.arguments(FAKE.set);
        let restarted = {
            arguments["restart"] = json!(true);
            app.call("run_code", arguments.clone()).await
        };
        arguments["conversationId"] = json!("other");
        [restarted, app.call("run_code", arguments).await]
    };
    let (_, refused) = tokio::join!(app.run("shell", "sleep 0.5"), turned_away);
    assert_eq!(refused.each_ref().map(status), ["busy", "busy"]);
    assert_eq!(FAKE.x(&app).await, "41");
}

#[tokio::test]
async fn a_kernel_without_its_directory_is_a_kernel_loss() {
    let app = TestApp::on_fake_with_notebook(&[]).await;
    FAKE.set_x(&app).await;
    std::fs::remove_dir_all(app.workspace("demo")).unwrap();
    let next = FAKE.cell(&app, FAKE.show).await;
    assert_eq!((status(&next), &next["output"]), ("ok", &json!("\n")));
    assert!(restarted(&next).unwrap().contains("deleted"), "{next}");
}

#[tokio::test]
async fn a_lost_container_is_a_kernel_loss() {
    let app = TestApp::on_fake_with_notebook(&[]).await;
    FAKE.set_x(&app).await;
    app.fake.as_ref().unwrap().remove_all();
    let next = FAKE.cell(&app, FAKE.show).await;
    assert_eq!(status(&next), "ok", "{next}");
    assert!(restarted(&next).unwrap().contains("sandbox was lost"));
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_hangs_keeps_nobody_waiting() {
    let app = TestApp::on_fake_with_notebook(&[]).await;
    FAKE.set_x(&app).await;
    let fake = app.fake.as_ref().unwrap();
    fake.hang(true);
    let begun = Instant::now();
    let limit = json!({ "timeoutSeconds": 1 });
    let lost = FAKE.cell_with(&app, FAKE.sleep, limit).await;
    assert_eq!(status(&lost), "engine_lost", "{lost}");
    let took = begun.elapsed();
    assert!(took <= Duration::from_secs(1 + 3), "{took:?}");
    fake.hang(false);
    let next = FAKE.cell(&app, FAKE.show).await;
    assert!(restarted(&next).unwrap().contains("sandbox was lost"));
}

#[tokio::test(start_paused = true)]
async fn a_new_kernel_waits_for_no_engine_that_is_lost() {
    let app = TestApp::on_fake_with_notebook(&[]).await;
    let fake = app.fake.as_ref().unwrap();
    let trouble = |failing| {
        fake.trouble(Trouble {
            engine_down: false,
            failing,
        });
    };
    fake.hang(true);
    trouble(Some("reach the container engine"));
    let begun = Instant::now();
    let lost = FAKE.cell(&app, FAKE.set).await;
    assert_eq!(status(&lost), "engine_lost", "{lost}");
    let took = begun.elapsed();
    assert!(took <= Duration::from_secs(20), "{took:?}");
    fake.hang(false);
    trouble(None);
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn busy_kernels_answer_when_to_come_back() {
    let app = TestApp::on_fake_with_notebook(&[("MAX_KERNELS", "1")]).await;
    let cell = |conversation: &str, code: &str| {
        let arguments = json!({ "conversationId": conversation, "language": "notebook", "code": code, "stateful": true });
        app.call("run_code", arguments)
    };
    let other = async {
        eventually("the only kernel is busy", || {
            app.app.parts.kernels.count_of("notebook") == (0, 1)
        })
        .await;
        cell("other", "echo hi").await
    };
    let (_, refused) = tokio::join!(cell("first", "sleep 2"), other);
    assert_eq!(status(&refused), "busy");
    assert_eq!(refused["retryAfterSeconds"], 5, "{refused}");
}

#[tokio::test]
async fn kernels_are_counted() {
    let app = TestApp::on_fake_with_notebook(&[("METRICS_TOKEN", "b84de0c2a96f4713")]).await;
    let count = async |series: &str| {
        let request = get("/metrics").header("authorization", "Bearer b84de0c2a96f4713");
        let text = app.send(request.body(Body::empty()).unwrap()).await.text();
        let line = text.lines().find_map(|line| line.strip_prefix(series));
        line.unwrap_or_else(|| panic!("{series} is not in {text}"))
            .trim()
            .to_owned()
    };
    let idle = "mcp_sandbox_kernels{language=\"notebook\",state=\"idle\"}";
    assert_eq!(count(idle).await, "0");
    FAKE.set_x(&app).await;
    FAKE.set_x(&app).await;
    assert_eq!(count(idle).await, "1");
    let starts = "mcp_sandbox_run_starts_total{way=\"kernel\"}";
    assert_eq!(count(starts).await, "1");
    FAKE.cell(&app, FAKE.leave).await;
    assert_eq!(count(idle).await, "0");
    let ended = "mcp_sandbox_kernels_lost_total{why=\"ended\"}";
    assert_eq!(count(ended).await, "1");
}

#[tokio::test]
async fn a_kernel_keeps_the_network_that_it_began_with() {
    let app = TestApp::on_fake_with_notebook(&[("ALLOW_NETWORK", "1")]).await;
    let network = &app.app.parts.gate.network;
    eventually("the network is allowed", || network.access().is_ok()).await;
    let (with, without) = (json!({ "network": true }), json!({ "network": false }));
    let first = FAKE.cell_with(&app, FAKE.set, with.clone()).await;
    assert_eq!(status(&first), "ok", "{first}");
    let specs = app.fake.as_ref().unwrap().specs();
    assert!(
        specs
            .iter()
            .any(|spec| matches!(spec.network, NetworkAccess::Bridge { .. })),
        "{specs:?}"
    );
    let refused = FAKE.cell_with(&app, FAKE.show, without.clone()).await;
    insta::assert_snapshot!(refused["message"].as_str().unwrap(), @"the kernel of this conversation was started with network: true: give the same, or restart: true for a new kernel without its variables");
    let shown = FAKE.cell_with(&app, FAKE.show, with.clone()).await;
    assert_eq!(shown["output"], "41\n");
    let restart = json!({ "network": false, "restart": true });
    let next = FAKE.cell_with(&app, FAKE.show, restart).await;
    assert_eq!(
        (restarted(&next).is_some(), &next["output"]),
        (true, &json!("\n"))
    );
    let refused = FAKE.cell_with(&app, FAKE.show, with).await;
    assert_eq!(status(&refused), "kernel_differs");
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn a_kernel_that_holds_too_much_is_ended_and_told() {
    let app = TestApp::on_fake_with_notebook(&[("WORKSPACE_QUOTA", "10m")]).await;
    let holds = |mebibytes: u64| format!("X=41\nhold {}", mebibytes << 20);
    assert_eq!(status(&FAKE.cell(&app, &holds(9)).await), "ok");
    let upload = async || app.upload("file", &vec![b'x'; 2 << 20]).await;
    insta::assert_snapshot!(upload().await["message"].as_str().unwrap(), @"the conversation's files would take 11534336 bytes (9437184 of them in files that were deleted while a stateful kernel has them open: close them there, or run once with restart: true) and the limit is 10485760: delete some, or start a new conversation");
    assert_eq!(status(&FAKE.cell(&app, &holds(7)).await), "ok");
    assert_eq!(upload().await["success"], true);
    // Less than the quota, but there are other files.
    let ended = FAKE.cell(&app, &holds(9)).await;
    assert_eq!(status(&ended), "disk_limit");
    insta::assert_snapshot!(ended["hint"].as_str().unwrap(), @"Files that were deleted but are still open in the kernel, or may be on their way through its sockets, take 9 MiB, which with the 2 MiB of files in /data is more than the limit for a conversation of 10 MiB: close files that you delete. The kernel has ended: its variables are lost, and the next stateful run begins with a new one.");
    let next = FAKE.cell(&app, FAKE.show).await;
    insta::assert_snapshot!(restarted(&next).unwrap(), @"Files that were deleted but still open in the kernel, or on their way through its sockets, took more than the conversation may have: variables, functions and imports are lost, files in /data are not.");
    assert_eq!(status(&FAKE.cell(&app, &holds(1)).await), "ok");
}
