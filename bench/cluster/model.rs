//! What one leader carries, computed from what runs and sandboxes cost.

use std::time::Duration;

/// What one of each costs.
pub(crate) struct Costs {
    /// Processor time of the server for a run.
    pub(crate) server: Duration,
    /// The same of the whole machine, with nodes and client.
    pub(crate) machine: Duration,
    /// Memory of the server for a sandbox and its stream.
    pub(crate) kilobytes: f64,
    /// Requests to the API server for a sandbox, but for its removal.
    pub(crate) requests_of_sandbox: f64,
    /// The same for a run.
    pub(crate) requests_of_run: f64,
}

/// How the clusters that are computed are used: a node takes 110 pods, some of which are others'.
const SANDBOXES_PER_NODE: f64 = 80.0;
/// How often each sandbox has a run, and how long it stays with its conversation.
const BETWEEN_RUNS: f64 = 10.0;
const LIFE: f64 = 600.0;
/// Changes of a pod that the watch tells: scheduled, started, running, ended, gone.
const CHANGES: f64 = 5.0;

impl Costs {
    pub(crate) fn print(&self) {
        println!("\n| what it costs | |\n|---|---|");
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        println!(
            "| a run: processor time of the server | {:.2} ms |",
            milliseconds(self.server)
        );
        println!(
            "| a run: of the whole machine, with both nodes and the client | {:.2} ms |",
            milliseconds(self.machine)
        );
        println!(
            "| a run: requests to the API server | {:.2} |",
            self.requests_of_run
        );
        println!(
            "| a sandbox: memory of the server | {:.0} kB |",
            self.kilobytes
        );
        println!(
            "| a sandbox: requests to the API server until it is ready | {:.1} |",
            self.requests_of_sandbox
        );
    }
}

/// Runs per second as they were measured, beside what the cost of a run alone says.
pub(crate) fn compare(costs: &Costs, throughput: &[(usize, f64)]) {
    let cores = std::thread::available_parallelism().unwrap().get();
    let limit = f64::from(u32::try_from(cores).unwrap()) / costs.machine.as_secs_f64();
    println!("\n| busy conversations | runs per second | computed for busy cores |\n|---|---|---|");
    for (conversations, rate) in throughput {
        println!("| {conversations} | {rate:.0} | {limit:.0} |");
    }
}

/// What a leader of a cluster of this size has to do.
pub(crate) struct Leader {
    nodes: u32,
    sandboxes: f64,
    runs: f64,
    cores: f64,
    megabytes: f64,
    requests: f64,
    changes: f64,
}

impl Leader {
    pub(crate) const HEADER: &str = "| nodes | sandboxes, each a stream | runs per second | cores | memory for streams, MB | requests to the API server per second | changes told by the watch per second |\n|---|---|---|---|---|---|---|";

    pub(crate) fn of(nodes: u32, costs: &Costs) -> Self {
        let sandboxes = f64::from(nodes) * SANDBOXES_PER_NODE;
        let (runs, made) = (sandboxes / BETWEEN_RUNS, sandboxes / LIFE);
        Self {
            nodes,
            sandboxes,
            runs,
            cores: runs * costs.server.as_secs_f64(),
            megabytes: sandboxes * costs.kilobytes / 1e3,
            // And one to remove it.
            requests: made * (costs.requests_of_sandbox + 1.0) + runs * costs.requests_of_run,
            changes: made * CHANGES,
        }
    }

    pub(crate) fn print(&self) {
        println!(
            "| {} | {:.0} | {:.0} | {:.1} | {:.0} | {:.0} | {:.0} |",
            self.nodes,
            self.sandboxes,
            self.runs,
            self.cores,
            self.megabytes,
            self.requests,
            self.changes
        );
    }
}
