//! Series of times, and how they are printed.

use std::time::Duration;

/// Times of one case.
pub(crate) struct Series {
    name: String,
    times: Vec<Duration>,
}

impl Series {
    pub(crate) const HEADER: &str =
        "| case | n | p50 ms | p95 ms | p99 ms | of `docker run` |\n|---|---|---|---|---|---|";

    pub(crate) fn new(name: &str, mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self {
            name: name.to_owned(),
            times,
        }
    }

    pub(crate) fn median(&self) -> Duration {
        self.percentile(50)
    }

    fn percentile(&self, percent: usize) -> Duration {
        let index = (self.times.len() * percent).div_ceil(100).saturating_sub(1);
        self.times[index]
    }

    /// Prints a row of the table; with a baseline, also the median as a share of it.
    pub(crate) fn print(&self, baseline: Option<Duration>) {
        let milliseconds = |percent| self.percentile(percent).as_secs_f64() * 1e3;
        let share = baseline.map_or_else(String::new, |baseline| {
            format!(
                "{:.0} %",
                self.median().as_secs_f64() / baseline.as_secs_f64() * 100.0
            )
        });
        let [p50, p95, p99] = [50, 95, 99].map(milliseconds);
        println!(
            "| {} | {} | {p50:.1} | {p95:.1} | {p99:.1} | {share} |",
            self.name,
            self.times.len()
        );
    }
}

/// The machine that the figures were measured on.
pub(crate) fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map(|(_, name)| name);
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let memory = rustix::system::sysinfo().totalram >> 30;
    let engine = std::process::Command::new("docker")
        .args(["version", "--format", "{{.Server.Version}}"])
        .output();
    let engine = engine
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        .unwrap_or_default();
    let kernel = read("/proc/sys/kernel/osrelease");
    let load = read("/proc/loadavg");
    format!(
        "{cores} cores ({}), {memory} GiB, Linux {}, Docker {engine}, load before {}",
        model.unwrap_or("unknown"),
        kernel.trim(),
        load.split(' ').next().unwrap_or_default(),
    )
}

/// MiB of memory that programs could have.
pub(crate) fn available() -> u64 {
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap();
    let line = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let kilobytes: u64 = line
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap();
    kilobytes >> 10
}
