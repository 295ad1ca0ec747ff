//! Measures how a neighbour fares next to programs that take all they can get, and what is left of them afterwards.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::cases::{self, PRINT};
use super::server::Server;
use super::stats::Series;

/// Time limit of a hostile program.
const LIMIT: Duration = Duration::from_secs(2);
/// How many of them run at a time, each in its own conversation.
const AT_ONCE: usize = 4;
/// How many runs the neighbour makes while it is alone.
const ALONE: usize = 300;

macro_rules! attack {
    ($language:literal, $file:literal) => {
        (
            $language,
            include_str!(concat!("../../tests/fixtures/attacks/", $file)),
        )
    };
}

const ATTACKS: &[(&str, &str)] = &[
    attack!("python", "fork_bomb.py"),
    attack!("shell", "fork_bomb.sh"),
    attack!("python", "memory.py"),
    attack!("python", "flood.py"),
    attack!("python", "busy.py"),
    attack!("python", "ignored_signals.py"),
    attack!("python", "daemon.py"),
    attack!("python", "kill_others.py"),
    attack!("python", "stop_others.py"),
    attack!("python", "forged_record.py"),
    attack!("python", "many_small_files.py"),
    attack!("python", "links.py"),
    attack!("python", "orphan_output.py"),
    attack!("shell", "kill_init.sh"),
];

/// Runs `count` hostile programs and prints what the neighbour saw.
pub(crate) async fn measure(count: usize) {
    let settings = [
        ("POOL_SIZE", "2"),
        ("WORKSPACE_QUOTA", "100m"),
        ("SANDBOX_IDLE_TTL", "5s"),
    ];
    let server = Server::start(&settings).await;
    server.wait_until_full().await;
    println!("{}", Series::HEADER);
    cases::following_runs(&server, "neighbour, alone", PRINT, ALONE)
        .await
        .print(None);
    let over = CancellationToken::new();
    let name = format!("neighbour, beside {count} hostile programs");
    let (late, beside) = tokio::join!(
        async {
            let late = attack(&server, count).await;
            over.cancel();
            late
        },
        cases::runs_until(&server, &name, PRINT, &over),
    );
    beside.print(None);
    println!(
        "\nlatest answer: {:.1} s after its time limit\n",
        late.as_secs_f64()
    );
    let root = server.root();
    tokio::time::sleep(Duration::from_secs(10)).await;
    println!("after 10 s: {}", left(&root));
    server.stop();
    println!("after the server: {}", left(&root));
}

/// Runs the programs. Returns how long after its time limit the latest answer came.
async fn attack(server: &Server, count: usize) -> Duration {
    let attackers = (0..AT_ONCE).map(async |attacker| {
        let mut latest = Duration::ZERO;
        for number in (attacker..count).step_by(AT_ONCE) {
            let (language, code) = ATTACKS[number % ATTACKS.len()];
            // A new conversation now and then: a workspace that is full stays full.
            let conversation = format!("hostile-{attacker}-{}", number / 50);
            let begun = Instant::now();
            let answer: Value = server
                .call(
                    "run_code",
                    json!({ "conversationId": conversation, "language": language, "code": code,
                            "timeoutSeconds": LIMIT.as_secs() }),
                )
                .await;
            assert!(
                answer["status"].is_string() || answer["code"].is_string(),
                "{answer}"
            );
            latest = latest.max(begun.elapsed().saturating_sub(LIMIT));
        }
        latest
    });
    let latest = futures::future::join_all(attackers).await;
    latest.into_iter().max().unwrap_or_default()
}

/// Counts the server's containers and the files in its private directory.
fn left(root: &Path) -> String {
    let id = std::fs::read_to_string(root.join(".root-id")).unwrap_or_default();
    let filter = format!("label=sandbox.root={}", id.trim());
    let containers = Command::new("docker")
        .args(["ps", "--all", "--quiet", "--filter", &filter])
        .output()
        .map(|output| output.stdout.split(|&byte| byte == b'\n').count() - 1);
    let temporary = std::fs::read_dir(root.join(".tmp")).map_or(0, Iterator::count);
    format!(
        "{} containers, {temporary} temporary files",
        containers.unwrap_or_default()
    )
}
