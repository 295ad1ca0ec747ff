//! Programs that take space which no name shows: it counts, and whoever has it goes before anybody else.

use std::fs;
use std::path::Path;

use rstest::rstest;
use serde_json::{Value, json};

use super::{ATTACKS, Target};
use crate::support::engines::Engine;

mod small_disk_on_docker;

/// The attack, as the arguments of a call.
fn attack(conversation: &str, stateful: bool, environment: &Value) -> Value {
    let code = fs::read_to_string(Path::new(ATTACKS).join("deleted_files.py")).unwrap();
    json!({ "conversationId": conversation, "language": "python", "code": code, "stateful": stateful,
        "timeoutSeconds": 30, "environment": environment })
}

fn cell(code: &str) -> Value {
    json!({ "conversationId": "demo", "language": "python", "code": code, "stateful": true })
}

/// A program that takes some space and then goes on for a while.
fn innocent(conversation: &str, mebibytes: u32, seconds: f64) -> Value {
    let code = format!("head -c {mebibytes}m /dev/zero > mine; sleep {seconds}; echo fine");
    json!({ "conversationId": conversation, "language": "shell", "code": code, "timeoutSeconds": 30 })
}

#[rstest]
#[case::on_docker(Engine::Docker)]
#[case::on_kubernetes(Engine::Kubernetes)]
#[tokio::test]
async fn deleted_files_of_a_kernel_count_for_its_conversation(#[case] engine: Engine) {
    let target = Target::on(engine, &[("WORKSPACE_QUOTA", "50m")]).await;
    let call = async |arguments| target.app.call("run_code", arguments).await;
    let kept = call(attack("demo", true, &json!({ "MIB": "40" }))).await;
    assert_eq!(kept["status"], "ok", "{kept}");
    let full = target.app.upload("more", &vec![b'x'; 11 << 20]).await;
    assert_eq!(full["code"], "quota_exceeded", "{full}");
    let why = "of them in files that were deleted while a stateful kernel has them open";
    assert!(full["message"].as_str().unwrap().contains(why), "{full}");
    let grown = call(innocent("demo", 12, 5.0)).await;
    assert_eq!(grown["status"], "disk_limit", "{grown}");
    assert!(
        grown["hint"]
            .as_str()
            .unwrap()
            .contains("deleted while a stateful kernel"),
        "{grown}"
    );
    call(json!({ "conversationId": "demo", "language": "shell", "code": "rm -f mine" })).await;
    let closed = call(cell("for file in kept: os.close(file)\nlen(kept)")).await;
    assert_eq!(closed["status"], "ok", "{closed}");
    assert_eq!(
        target.app.upload("more", &vec![b'x'; 11 << 20]).await["success"],
        true
    );
    target.finish().await;
}

#[rstest]
#[case::on_docker(Engine::Docker)]
#[case::on_kubernetes(Engine::Kubernetes)]
#[tokio::test]
async fn a_kernel_that_holds_more_than_its_conversation_may_have_is_ended(#[case] engine: Engine) {
    let target = Target::on(
        engine,
        &[("WORKSPACE_QUOTA", "50m"), ("RUN_FILE_SIZE", "100m")],
    )
    .await;
    for how in ["open", "sent"] {
        let result = target
            .app
            .call(
                "run_code",
                attack("demo", true, &json!({ "MIB": "60", "HOW": how })),
            )
            .await;
        assert_eq!(result["status"], "disk_limit", "{how}: {result}");
        let hint = result["hint"].as_str().unwrap();
        assert!(
            hint.contains("deleted but are still open") && hint.contains("The kernel has ended"),
            "{hint}"
        );
        let next = target
            .app
            .call("run_code", cell("'kept' in globals()"))
            .await;
        assert_eq!(next["status"], "ok", "{next}");
        let told = format!("{} {}", next["output"], next["kernelRestarted"]);
        assert!(told.contains("False") && told.contains("true"), "{next}");
    }
    target.finish().await;
}
