//! Two programs of one conversation at once: they share its files, and nothing else.

use rstest::rstest;
use serde_json::json;

use super::{Target, assert_safe};
use crate::support::engines::Engine;

/// Enough for what happens in one of a hundred runs; on a cluster, for the ways to its streams.
const fn runs(engine: Engine) -> usize {
    if engine.is_kubernetes() { 60 } else { 500 }
}

/// Far longer than they take.
const SECONDS: u32 = 290;

/// Each answers with its own number, in every way there is to answer.
const PLAIN: [(&str, &str); 4] = [
    (
        "python",
        "import sys\nprint('plain NUMBER')\nsys.exit(NUMBER % 7)",
    ),
    (
        "python",
        "import numpy, sys\nprint('plain', int(numpy.int64(NUMBER)))\nsys.exit(NUMBER % 7)",
    ),
    (
        "typescript",
        "console.log('plain NUMBER'); process.exit(NUMBER % 7);",
    ),
    ("shell", "echo plain NUMBER; exit $((NUMBER % 7))"),
];

#[rstest]
#[case::on_warm_docker(Engine::WarmDocker)]
#[case::on_warm_kubernetes(Engine::WarmKubernetes)]
#[tokio::test]
async fn no_answer_is_wrong_beside_a_hostile_program(#[case] engine: Engine) {
    let target = Target::on(engine, &[]).await;
    target.warm_up("python").await;
    let hostile = async {
        let mut result = target.run("beside_others.py", SECONDS, json!({})).await;
        while result["status"] == "running" {
            let arguments = json!({ "runId": result["runId"], "waitSeconds": 30 });
            result = target.app.call("get_run", arguments).await;
        }
        result
    };
    let plain = async {
        for number in 0..runs(engine) {
            let (language, code) = PLAIN[number % PLAIN.len()];
            let code = code.replace("NUMBER", &number.to_string());
            let arguments = json!({ "conversationId": "demo", "language": language, "code": code });
            let result = target.app.call("run_code", arguments).await;
            assert_eq!(
                (&result["output"], &result["exitCode"]),
                (&json!(format!("plain {number}\n")), &json!(number % 7)),
                "{language}: {result}"
            );
        }
        let enough =
            json!({ "conversationId": "demo", "language": "shell", "code": "touch /data/enough" });
        target.app.call("run_code", enough).await;
    };
    let (hostile, ()) = tokio::join!(hostile, plain);
    assert_safe(&hostile);
    target.finish().await;
}
