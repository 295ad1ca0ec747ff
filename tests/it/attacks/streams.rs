//! Programs that tamper with their output, which PID 1 reads and passes on.

use rstest::rstest;
use serde_json::json;

use super::{Target, assert_safe, end};
use crate::support::engines::Engine;

in_cold_and_warm_sandboxes! {
    forged_records_are_output,
    closing_the_streams_is_not_the_end,
    a_full_pipe_does_not_hold_up_the_end,
    streams_that_do_not_wait_are_read_like_others,
    leftovers_do_not_hold_up_the_answer,
    other_ways_to_the_streams_lead_to_the_same_place,
    a_program_that_reads_its_own_output_only_deceives_itself,
}

async fn forged_records_are_output(target: &Target) {
    let result = target.attack("forged_record.py", 10).await;
    assert_eq!(end(&result), ("error", Some(3)), "{result}");
    let (stdout, stderr) = (
        result["stdout"].as_str().unwrap(),
        result["stderr"].as_str().unwrap(),
    );
    for text in [stdout, stderr] {
        assert_eq!(text.matches("{\"end\": {\"exit\": 0").count(), 2);
        assert_eq!(text.matches("{\"clean\": true}").count(), 2);
    }
    assert!(stdout.ends_with("last\n\u{3}\0\0"), "none is lost");
    assert!(stderr.ends_with(&"\u{3}".repeat(100)), "none is lost");
}

async fn closing_the_streams_is_not_the_end(target: &Target) {
    let result = target.attack("closed_streams.py", 1).await;
    assert_eq!(
        (end(&result), &result["output"]),
        (("timeout", None), &json!("before\n")),
        "{result}"
    );
    let result = target.attack("quiet_end.py", 10).await;
    assert_eq!(
        (end(&result), &result["output"]),
        (("error", Some(6)), &json!("before\n")),
        "{result}"
    );
}

async fn a_full_pipe_does_not_hold_up_the_end(target: &Target) {
    let result = target.attack("nonblocking_end.py", 10).await;
    assert_eq!(end(&result), ("error", Some(5)), "{result}");
}

async fn streams_that_do_not_wait_are_read_like_others(target: &Target) {
    let result = target.attack("nonblocking_flood.py", 30).await;
    assert_eq!(result["status"], "output_limit", "{}", result["hint"]);
    for stream in ["stdout", "stderr"] {
        assert!(
            result["truncated"][stream].as_u64().unwrap() > 0,
            "{stream}"
        );
    }
}

async fn leftovers_do_not_hold_up_the_answer(target: &Target) {
    let result = target.attack("orphan_output.py", 30).await;
    assert_eq!(end(&result), ("error", Some(4)), "{result}");
    let stdout = result["stdout"].as_str().unwrap();
    assert!(stdout.starts_with("in time\n"), "{result}");
    assert!(result["durationMs"].as_u64().unwrap() < 10_000, "{result}");
}

async fn other_ways_to_the_streams_lead_to_the_same_place(target: &Target) {
    let result = target.attack("write_through_init.py", 10).await;
    assert_safe(&result);
    assert!(
        result["stdout"].as_str().unwrap().contains("again 1\n"),
        "{result}"
    );
    assert_eq!(result["stderr"], "again 2\n");
}

async fn a_program_that_reads_its_own_output_only_deceives_itself(target: &Target) {
    let result = target.attack("stolen_output.py", 5).await;
    assert_eq!(end(&result), ("ok", Some(0)), "{result}");
}

/// A traceback comes after what was printed before it, and lines alternate as they were written, where an interpreter
/// of ours writes them, and where Bash redirects them. What keeps Bash in order is nothing that its programs see.
#[rstest]
#[case::on_warm_docker(Engine::WarmDocker)]
#[case::on_warm_kubernetes(Engine::WarmKubernetes)]
#[tokio::test]
async fn output_is_in_order(#[case] engine: Engine) {
    let target = Target::on(engine, &[]).await;
    let turns = (1..9).map(|turn| format!("out{turn}\nerr{turn}\n"));
    let alternating = turns.collect::<Vec<_>>().concat();
    let python =
        "import sys\nfor i in range(1, 9):\n print(f'out{i}')\n print(f'err{i}', file=sys.stderr)";
    let typescript =
        "for (let i = 1; i < 9; i++) { console.log(`out${i}`); console.error(`err${i}`); }";
    let shell = "for i in {1..8}; do echo out$i; echo err$i >&2; done; env | grep LD_PRELOAD";
    let failing = "for i in range(20): print('line', i)\n1 / 0";
    for _ in 0..20 {
        let programs = [
            ("python", python),
            ("typescript", typescript),
            ("shell", shell),
        ];
        for (language, code) in programs {
            let arguments =
                json!({ "language": language, "code": code, "conversationId": "order" });
            let result = target.app.call("run_code", arguments).await;
            assert_eq!(result["output"], alternating, "{result}");
        }
        let arguments = json!({ "language": "python", "code": failing, "conversationId": "order" });
        let result = target.app.call("run_code", arguments).await;
        let output = result["output"].as_str().unwrap();
        let (before, after) = output.split_once("Traceback").unwrap();
        assert!(
            before.ends_with("line 19\n") && !after.contains("line 1\n"),
            "{output}"
        );
    }
    target.finish().await;
}
