//! Measures runs on a cluster of Kubernetes over HTTP, what they cost, and from that what one server can lead.
//! `tests/cluster/bench.sh` brings up a cluster, and prints the tables of `docs/kubernetes.md`.
#![expect(clippy::unwrap_used, reason = "a measurement that cannot go on ends")]
#![expect(clippy::print_stdout, reason = "the table is the output")]

#[expect(dead_code, reason = "the other benchmark has the rest")]
#[path = "latency/cases.rs"]
mod cases;
#[path = "cluster/given.rs"]
mod given;
#[path = "cluster/model.rs"]
mod model;
#[path = "run.rs"]
mod run;
#[expect(dead_code, reason = "the other benchmark has the rest")]
#[path = "latency/server.rs"]
mod server;
#[expect(dead_code, reason = "the other benchmark has the rest")]
#[path = "latency/stats.rs"]
mod stats;
#[path = "cluster/usage.rs"]
mod usage;

use std::time::Duration;

use tokio::time::Instant;

use self::given::Given;
use self::model::{Costs, Leader};
use self::stats::Series;
use self::usage::Usage;

/// Sandboxes that are started ahead where their cost is measured.
const AHEAD: u32 = 24;
/// Runs whose cost is measured, one after another.
const RUNS: u32 = 500;
/// New conversations at the same time.
const BURST: u32 = 20;
const BUSY: [usize; 3] = [1, 8, 32];
/// How large clusters are that are computed.
const NODES: [u32; 3] = [10, 100, 1_000];

fn main() {
    run::run(async {
        let Some(given) = Given::read() else {
            println!(
                "No cluster is given: tests/cluster/bench.sh brings one up, and measures there."
            );
            return;
        };
        println!(
            "{}, {} nodes\n\n{}",
            stats::machine(),
            given.nodes(),
            Series::HEADER
        );
        latencies(&given).await;
        burst(&given).await;
        let costs = costs(&given).await;
        costs.print();
        let throughput = throughput(&given).await;
        model::compare(&costs, &throughput);
        println!("\n{}", Leader::HEADER);
        for nodes in NODES {
            Leader::of(nodes, &costs).print();
        }
    });
}

/// One run at a time, in sandboxes that were started ahead.
async fn latencies(given: &Given) {
    let server = given.server(&[("POOL_SIZE", "shell=8")]).await;
    given.until_pods(8).await;
    cases::new_conversations(&server, "first run of a conversation", cases::SHELL, 30)
        .await
        .print(None);
    cases::following_runs(&server, "following run", cases::SHELL, 200)
        .await
        .print(None);
    server.stop();
    given.until_pods(0).await;
}

/// New conversations at the same time, for which nothing was started ahead.
async fn burst(given: &Given) {
    let server = given.server(&[("POOL_SIZE", "0")]).await;
    let begun = Instant::now();
    let name = "of a burst of 20, none ahead";
    let count = usize::try_from(BURST).unwrap();
    cases::burst(&server, name, cases::SHELL, count)
        .await
        .print(None);
    let rate = f64::from(BURST) / begun.elapsed().as_secs_f64();
    println!(
        "\n{rate:.1} pods a second in that burst, {:?} on each node",
        given.pods_by_node()
    );
    server.stop();
    given.until_pods(0).await;
}

/// What runs and sandboxes cost, one after another.
async fn costs(given: &Given) -> Costs {
    let empty = given.server(&[("POOL_SIZE", "0")]).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let without = empty.resident();
    empty.stop();
    let ahead = format!("shell={AHEAD}");
    let before = given.requests();
    let server = given.server(&[("POOL_SIZE", &ahead)]).await;
    given.until_pods(AHEAD).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let made = given.requests() - before;
    let with = server.resident();
    let idle = Usage::of(&server);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let idle = Usage::of(&server) - idle;
    // Its sandbox is its own from now on, and the pool is full again.
    server.run("costs", cases::SHELL).await;
    given.until_pods(AHEAD + 1).await;
    let (before, requests) = (Usage::of(&server), given.requests());
    let begun = Instant::now();
    for _ in 0..RUNS {
        server.run("costs", cases::SHELL).await;
    }
    let took = begun.elapsed();
    let used = (Usage::of(&server) - before).without(&idle, took);
    let costs = Costs {
        server: used.server / RUNS,
        machine: used.machine / RUNS,
        kilobytes: f64::from(u32::try_from(with.saturating_sub(without)).unwrap())
            / f64::from(AHEAD),
        requests_of_sandbox: f64::from(made) / f64::from(AHEAD),
        requests_of_run: f64::from(given.requests() - requests) / f64::from(RUNS),
    };
    server.stop();
    given.until_pods(0).await;
    costs
}

/// Runs per second with so many busy conversations, each of which has its sandbox.
async fn throughput(given: &Given) -> Vec<(usize, f64)> {
    let server = given.server(&[("POOL_SIZE", "0")]).await;
    let mut throughput = Vec::new();
    for conversations in BUSY {
        let rate = cases::busy(&server, cases::SHELL, conversations).await;
        throughput.push((conversations, rate));
    }
    server.stop();
    given.until_pods(0).await;
    throughput
}
