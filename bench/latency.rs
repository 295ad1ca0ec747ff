//! Measures how long a run takes over HTTP, compared with `docker run` of the same image in the same minutes, and how
//! many runs there are per second. Needs a container engine and the runner images.
//!
//! `cargo bench` prints the tables of `bench/RESULTS.md`. `cargo bench -- throughput` and `-- bursts` print only those;
//! `cargo bench -- hostile` shows how a neighbour fares next to a thousand programs that take all they can get.
#![expect(clippy::unwrap_used, reason = "a measurement that cannot go on ends")]
#![expect(clippy::print_stdout, reason = "the table is the output")]

#[path = "latency/cases.rs"]
mod cases;
#[path = "latency/hostile.rs"]
mod hostile;
#[path = "run.rs"]
mod run;
#[path = "latency/server.rs"]
mod server;
#[path = "latency/stats.rs"]
mod stats;

use std::time::Duration;

use self::server::Server;
use self::stats::Series;

fn main() {
    run::run(async {
        println!("{}\n", stats::machine());
        let chosen = |name| std::env::args().any(|argument| argument == name);
        if chosen("hostile") {
            return hostile::measure(1000).await;
        }
        if chosen("bursts") {
            return bursts().await;
        }
        if !chosen("throughput") {
            latencies().await;
            bursts().await;
        }
        throughput().await;
    });
}

/// One run at a time.
async fn latencies() {
    println!("{}", Series::HEADER);
    let docker = cases::docker_run("mcp-sandbox-python", "print(1)", 30);
    docker.print(None);
    let baseline = docker.median();
    cold_latencies(baseline).await;
    warm_latencies(baseline).await;
}

/// Latencies when nothing was started ahead.
async fn cold_latencies(baseline: Duration) {
    let cold = Server::start(&[("POOL_SIZE", "0"), ("SANDBOX_REUSE", "never")]).await;
    cases::new_conversations(&cold, "cold path, print(1)", cases::PRINT, 30)
        .await
        .print(Some(baseline));
    cold.stop();
    let unprepared = Server::start(&[("POOL_SIZE", "0")]).await;
    cases::soon_after_cold(&unprepared, "in the 2 s after a cold run, print(1)", 10)
        .await
        .print(Some(baseline));
    unprepared.stop();
}

/// Latencies when a warm sandbox is waiting.
async fn warm_latencies(baseline: Duration) {
    let warm = Server::start(&[("POOL_SIZE", "2")]).await;
    warm.wait_until_full().await;
    cases::new_conversations(
        &warm,
        "first run of a conversation, print(1)",
        cases::PRINT,
        30,
    )
    .await
    .print(Some(baseline));
    cases::following_runs(&warm, "following run, print(1)", cases::PRINT, 100)
        .await
        .print(Some(baseline));
    cases::following_runs(&warm, "following run, pandas describe", cases::PANDAS, 50)
        .await
        .print(None);
    cases::following_runs(&warm, "following run, TypeScript", cases::TYPESCRIPT, 50)
        .await
        .print(None);
    cases::following_runs(&warm, "following run, shell", cases::SHELL, 50)
        .await
        .print(None);
    cases::new_conversations(&warm, "first stateful run, print(1)", cases::CELL, 10)
        .await
        .print(None);
    cases::following_runs(&warm, "stateful run, print(1)", cases::CELL, 100)
        .await
        .print(Some(baseline));
    cases::following_runs(
        &warm,
        "stateful run, TypeScript",
        cases::TYPESCRIPT_CELL,
        50,
    )
    .await
    .print(None);
    println!("\nserver at idle with a full pool: {}\n", warm.idle().await);
    warm.stop();
}

/// Many new conversations at once, with the settings that a server has by itself: the pool follows them.
async fn bursts() {
    println!("\n{}", Series::HEADER);
    let baseline = cases::docker_run("mcp-sandbox-python", "print(1)", 10);
    baseline.print(None);
    let server = Server::start(&[]).await;
    for count in [8, 32, 64] {
        server.wait_until_full().await;
        let name = format!("burst of {count} new conversations, print(1)");
        let burst = cases::burst(&server, &name, cases::PRINT, count).await;
        burst.print(Some(baseline.median()));
    }
    server.stop();
}

/// Many runs at a time.
async fn throughput() {
    println!("| busy conversations | runs per second, print(1) |\n|---|---|");
    let server = Server::start(&[("POOL_SIZE", "2")]).await;
    server.wait_until_full().await;
    for conversations in [1, 2, 4, 8] {
        println!(
            "| {conversations} | {:.0} |",
            cases::busy(&server, cases::PRINT, conversations).await
        );
    }
    server.stop();
}
