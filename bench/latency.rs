//! Measures how long a run takes over HTTP, compared with `docker run` of the same image in the same minutes, and how
//! many runs there are per second. Needs a container engine and the runner images.
//!
//! `cargo bench` prints the tables of `bench/RESULTS.md`. Only some of it:
//!
//! ```text
//! cargo bench -- throughput        runs per second
//! cargo bench -- bursts            many new conversations at once
//! cargo bench -- memory            what idle conversations take
//! cargo bench -- peers <python>    another sandbox beside it, which this Python has
//! cargo bench -- listed            runs that reach a listed host, beside those that have no network
//! cargo bench -- hostile           a neighbour next to a thousand programs that take all they can get
//! cargo bench -- short             a few runs of each kind, half a minute in all
//! ```
#![expect(clippy::unwrap_used, reason = "a measurement that cannot go on ends")]
#![expect(clippy::print_stdout, reason = "the table is the output")]

#[path = "latency/cases.rs"]
mod cases;
#[path = "latency/hostile.rs"]
mod hostile;
#[path = "latency/listed.rs"]
mod listed;
#[path = "latency/peer.rs"]
mod peer;
#[path = "run.rs"]
mod run;
#[path = "latency/server.rs"]
mod server;
#[path = "latency/stats.rs"]
mod stats;

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use self::server::Server;
use self::stats::Series;

/// Conversations that have done something and wait.
const IDLE: usize = 100;

fn main() {
    run::run(async {
        println!("{}\n", stats::machine());
        let chosen = |name| std::env::args().any(|argument| argument == name);
        if chosen("short") {
            return short().await;
        }
        if chosen("listed") {
            return listed::measure().await;
        }
        if chosen("hostile") {
            return hostile::measure(1000).await;
        }
        if let Some(python) = std::env::args()
            .skip_while(|argument| argument != "peers")
            .nth(1)
        {
            return peer::measure(&python).await;
        }
        if chosen("bursts") {
            return bursts().await;
        }
        if chosen("memory") {
            return memory().await;
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
    cases::run_with_files(&warm, "following run, 1,000 files, print(1)", 100)
        .await
        .print(Some(baseline));
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
    server.wait_until_full().await;
    for series in beside_pandas(&server).await {
        series.print(Some(baseline.median()));
    }
    server.stop();
}

/// Many new conversations that load libraries, and one beside them that needs none.
async fn beside_pandas(server: &Server) -> [Series; 2] {
    let over = CancellationToken::new();
    let name = "beside them, print(1)";
    server.run(name, cases::PRINT).await;
    let pandas = async {
        let _over = over.clone().drop_guard();
        cases::burst(server, "burst of 16 with pandas", cases::PANDAS, 16).await
    };
    let print = cases::runs_until(server, name, cases::PRINT, &over);
    tokio::join!(pandas, print).into()
}

/// Little of each kind, for a look at how they stand to `docker run`.
async fn short() {
    println!("{}", Series::HEADER);
    let baseline = cases::docker_run("mcp-sandbox-python", "print(1)", 5);
    baseline.print(None);
    let docker = Some(baseline.median());
    let server = Server::start(&[("POOL_SIZE", "python=2")]).await;
    server.wait_until_full().await;
    let (first, following) = ("first run, print(1)", "following run, print(1)");
    let first = cases::new_conversations(&server, first, cases::PRINT, 4).await;
    first.print(docker);
    let following = cases::following_runs(&server, following, cases::PRINT, 30).await;
    following.print(docker);
    let burst = cases::burst(&server, "burst of 4 new conversations", cases::PRINT, 4).await;
    burst.print(docker);
    server.stop();
}

/// What idle conversations take of the machine, with the settings that a server has by itself.
async fn memory() {
    let before = stats::available();
    let server = Server::start(&[]).await;
    server.wait_until_full().await;
    let pool = stats::available();
    for number in 0..IDLE {
        server.run(&format!("idle {number}"), cases::PRINT).await;
    }
    server.wait_until_full().await;
    let idle = stats::available();
    println!(
        "MiB less for programs: {} with a full pool, {} more with {IDLE} idle conversations",
        before.saturating_sub(pool),
        pool.saturating_sub(idle)
    );
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
