//! The configuration as people read it: what `check-config` prints.

use std::fmt;
use std::time::Duration;

use super::{
    AnswerConfig, Config, Dialect, EngineConfig, HttpConfig, KubernetesConfig, RunLimits,
    StorageConfig, reader,
};
use crate::units::show_size;

/// The name of a setting, and its value as it is written.
type Line = (&'static str, String);

fn time(duration: Duration) -> String {
    humantime::format_duration(duration).to_string()
}

fn size(bytes: u64) -> String {
    show_size(bytes)
}

/// The effective configuration as `NAME=value` lines with secrets hidden, for `check-config`.
impl fmt::Display for Config {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, after_oauth) = self.http.lines();
        let lines = first
            .into_iter()
            .chain(self.oauth.lines())
            .chain(after_oauth);
        let lines = lines.chain([("MCP_TOOLSET", self.toolset.into_str().to_owned())]);
        let lines = lines
            .chain(self.answers.lines())
            .chain(self.storage.lines());
        let lines = lines.chain(self.engine.lines());
        let lines = lines.chain(self.network.lines());
        let cluster = self.engine.kubernetes.as_ref();
        let lines =
            lines.chain(cluster.map_or_else(KubernetesConfig::no_lines, KubernetesConfig::lines));
        let lines = lines.chain(self.limits.lines()).chain([
            ("MAX_CONCURRENT_RUNS", self.admission.concurrent.to_string()),
            (
                "MAX_RUNS_PER_CONVERSATION",
                self.admission.per_conversation.to_string(),
            ),
            ("MAX_QUEUED_RUNS", self.admission.queued.to_string()),
            ("MAX_QUEUE_WAIT", time(self.admission.wait)),
            ("POOL_SIZE", self.pool.size.to_string()),
            ("SANDBOX_IDLE_TTL", time(self.pool.idle_ttl)),
            ("SANDBOX_LOADED_TTL", time(self.pool.loaded_ttl)),
            ("MAX_WARM_SANDBOXES", self.pool.max_warm.to_string()),
            (
                "SANDBOX_REUSE",
                if self.pool.reuse {
                    "conversation"
                } else {
                    "never"
                }
                .to_owned(),
            ),
            ("MAX_KERNELS", self.kernels.max_kernels.to_string()),
            ("KERNEL_TIMEOUT", time(self.kernels.idle)),
        ]);
        let last = [
            (
                "LOG_FORMAT",
                format!("{:?}", self.log.format).to_lowercase(),
            ),
            // What it stands for is in the filter.
            ("LOG_LEVEL", String::new()),
            ("RUST_LOG", self.log.filter.clone()),
        ];
        let lines = lines.chain(self.packages.lines());
        let lines = lines.chain(self.audit.lines()).chain(last);
        for (name, value) in lines {
            writeln!(formatter, "{name}={value}")?;
        }
        Ok(())
    }
}

impl RunLimits {
    fn lines(&self) -> [Line; 10] {
        [
            ("RUN_TIMEOUT", time(self.timeout)),
            ("RUN_TIMEOUT_MAX", time(self.timeout_max)),
            ("RUN_CPUS", reader::show_cpus(self.nano_cpus)),
            ("RUN_MEMORY", size(self.memory)),
            ("RUN_PIDS", self.pids.to_string()),
            ("RUN_OUTPUT_LIMIT", size(self.output as u64)),
            ("RUN_FILE_SIZE", size(self.file_size)),
            ("MAX_CODE_BYTES", size(self.code as u64)),
            ("CALL_BUDGET", time(self.call_budget)),
            ("OUTPUT_FOR_MODEL", self.output_for_model.to_string()),
        ]
    }
}

impl HttpConfig {
    /// Those before the settings of OAuth, and those after.
    fn lines(&self) -> ([Line; 4], [Line; 9]) {
        let first = [
            ("MCP_HTTP_ADDR", self.addr.to_string()),
            ("PUBLIC_BASE_URL", self.public_base_url.clone()),
            (
                "MCP_API_TOKEN",
                self.api_token
                    .as_ref()
                    .map_or("", |_| "(hidden)")
                    .to_owned(),
            ),
            (
                "ACCESS_FILE",
                self.access_file
                    .as_ref()
                    .map_or_else(String::new, |path| path.display().to_string()),
            ),
        ];
        let dialects: Vec<&str> = self.dialects.iter().map(Dialect::into_str).collect();
        let last = [
            ("ALLOWED_HOSTS", self.allowed_hosts.join(",")),
            ("ALLOWED_ORIGINS", self.allowed_origins.join(",")),
            (
                "METRICS_TOKEN",
                self.metrics_token
                    .as_ref()
                    .map_or("", |_| "(hidden)")
                    .to_owned(),
            ),
            (
                "ADMIN_TOKEN",
                self.admin_token
                    .as_ref()
                    .map_or("", |_| "(hidden)")
                    .to_owned(),
            ),
            ("HEALTH_COUNTS", self.health_counts.to_string()),
            (
                "RATE_LIMIT",
                self.rate_limit
                    .map_or_else(String::new, |rate| rate.to_string()),
            ),
            ("SHUTDOWN_GRACE", time(self.shutdown_grace)),
            ("SESSION_IDLE_TTL", time(self.session_idle)),
            ("DIALECTS", dialects.join(",")),
        ];
        (first, last)
    }
}

impl AnswerConfig {
    fn lines(self) -> [Line; 3] {
        [
            ("RESOURCE_LINKS", self.resource_links.into_str().to_owned()),
            (
                "STRUCTURED_CONTENT",
                self.structured_content.into_str().to_owned(),
            ),
            ("PICTURES", self.pictures.into_str().to_owned()),
        ]
    }
}

impl StorageConfig {
    fn lines(&self) -> [Line; 10] {
        [
            ("SANDBOX_ROOT", self.root.display().to_string()),
            (
                "SANDBOX_HOST_PATH",
                self.volume
                    .as_ref()
                    .map_or_else(|| self.host_path.display().to_string(), |_| String::new()),
            ),
            ("SANDBOX_VOLUME", self.volume.clone().unwrap_or_default()),
            ("FILE_SECRET", "(hidden)".to_owned()),
            (
                "FILE_URL_TTL",
                self.link_ttl.map_or_else(|| "0".to_owned(), time),
            ),
            (
                "CONVERSATION_TTL",
                self.conversation_ttl.map_or_else(|| "0".to_owned(), time),
            ),
            ("STORAGE_LIMIT", self.limit.map_or_else(String::new, size)),
            ("WORKSPACE_QUOTA", size(self.quota)),
            ("DISK_FREE_FLOOR", size(self.free_space_floor)),
            ("MAX_UPLOAD_BYTES", size(self.max_upload_bytes)),
        ]
    }
}

impl EngineConfig {
    fn lines(&self) -> Vec<Line> {
        let dns: Vec<_> = self.dns.iter().map(ToString::to_string).collect();
        let allowed = self.allow_weaker.iter().map(|control| control.name());
        let report = self.firewall_report.as_ref();
        let parent = self.cgroup_parent.clone();
        let executor = match self.kubernetes {
            Some(_) => "kubernetes",
            None => "docker",
        };
        vec![
            ("EXECUTOR", executor.to_owned()),
            ("DOCKER_HOST", self.host.clone().unwrap_or_default()),
            ("SANDBOX_RUNTIME", self.runtime.clone().unwrap_or_default()),
            ("SANDBOX_CGROUP_PARENT", parent.unwrap_or_default()),
            (
                "SANDBOX_UIDS",
                self.uids.map_or_else(String::new, |uids| uids.to_string()),
            ),
            (
                "ALLOW_WEAKER_SANDBOX",
                allowed.collect::<Vec<_>>().join(","),
            ),
            ("ALLOW_NETWORK", u8::from(self.allow_network).to_string()),
            (
                "FIREWALL_REPORT",
                report.map_or_else(String::new, |path| path.display().to_string()),
            ),
            ("RUN_DNS", dns.join(",")),
            ("RUN_SUBNETS", self.subnets.to_string()),
        ]
    }
}
