//! What the server's own process uses, read from `/proc` when somebody asks, under the names that Prometheus gives it.

use std::fmt::Error;

use procfs::process::Process as Proc;
use procfs::{boot_time_secs, page_size, ticks_per_second};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Reads `/proc/self`.
#[derive(Debug)]
pub(super) struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        // Without /proc there is nothing to report, but the other metrics are still written.
        let Ok((process, stat)) =
            Proc::myself().and_then(|process| process.stat().map(|stat| (process, stat)))
        else {
            return Ok(());
        };
        let mut encode = |name: &str, help: &str, metric: &dyn EncodeMetric| {
            let encoder = encoder.encode_descriptor(name, help, None, metric.metric_type())?;
            metric.encode(encoder)
        };
        #[expect(
            clippy::cast_precision_loss,
            reason = "seconds need no more than 52 bits"
        )]
        let seconds = |ticks: u64| ticks as f64 / ticks_per_second() as f64;
        let cpu = seconds(stat.utime + stat.stime);
        encode(
            "process_cpu_seconds",
            "Processor time of the server",
            &ConstCounter::new(cpu),
        )?;
        encode(
            "process_resident_memory_bytes",
            "Memory of the server",
            &ConstGauge::new(int(stat.rss * page_size())),
        )?;
        encode(
            "process_threads",
            "Threads of the server",
            &ConstGauge::new(stat.num_threads),
        )?;
        if let Ok(count) = process.fd_count() {
            let help = "Open files of the server";
            encode("process_open_fds", help, &ConstGauge::new(int(count)))?;
        }
        let limits = process.limits().map(|limits| limits.max_open_files);
        if let Ok(procfs::process::LimitValue::Value(max_files)) =
            limits.map(|limit| limit.soft_limit)
        {
            let help = "Files that the server may open";
            encode("process_max_fds", help, &ConstGauge::new(int(max_files)))?;
        }
        if let Ok(boot) = boot_time_secs() {
            #[expect(
                clippy::cast_precision_loss,
                reason = "seconds need no more than 52 bits"
            )]
            let start = boot as f64 + seconds(stat.starttime);
            let help = "When the server was started";
            encode("process_start_time_seconds", help, &ConstGauge::new(start))?;
        }
        Ok(())
    }
}

fn int(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}
