//! Settings of other servers that do part of what this one does: who moves here is told ours, instead of having them
//! silently ignored.

/// A setting of another server, and which of ours do its work.
#[derive(Clone, Copy, Debug)]
pub struct Foreign {
    /// Its name there.
    pub name: &'static str,
    /// Ours, if there are any.
    pub ours: &'static [&'static str],
}

const fn foreign_setting(name: &'static str, ours: &'static [&'static str]) -> Foreign {
    Foreign { name, ours }
}

/// All of them, as docs/moving.md lists them.
pub const FOREIGN: &[Foreign] = &[
    foreign_setting("HOST", &["MCP_HTTP_ADDR"]),
    foreign_setting("PORT", &["MCP_HTTP_ADDR"]),
    foreign_setting("API_KEY", &["MCP_API_TOKEN"]),
    foreign_setting("DEBUG", &["LOG_LEVEL", "RUST_LOG"]),
    foreign_setting("LOG_DIR", &[]),
    foreign_setting("MAX_EXECUTION_TIME", &["RUN_TIMEOUT", "RUN_TIMEOUT_MAX"]),
    foreign_setting("MAX_MEMORY_MB", &["RUN_MEMORY"]),
    foreign_setting("MAX_OUTPUT_SIZE", &["RUN_OUTPUT_LIMIT"]),
    foreign_setting("KERNEL_CLEANUP_INTERVAL", &[]),
    foreign_setting("SESSION_POOL_SIZE", &["POOL_SIZE"]),
    foreign_setting("SESSION_POOL_MAX_IDLE_TIME", &["SANDBOX_IDLE_TTL"]),
    foreign_setting("SESSION_POOL_REFILL_INTERVAL", &[]),
    foreign_setting("ENABLE_NETWORK_ACCESS", &["ALLOW_NETWORK"]),
    foreign_setting("SANDBOX_DATA_DIR", &["SANDBOX_ROOT"]),
    foreign_setting("SANDBOX_IMAGE", &[]),
    foreign_setting("SANDBOX_MEMORY_LIMIT", &["RUN_MEMORY"]),
    foreign_setting("SANDBOX_CPU_LIMIT", &["RUN_CPUS"]),
    foreign_setting("SANDBOX_EXEC_TIMEOUT_S", &["RUN_TIMEOUT"]),
    foreign_setting(
        "SANDBOX_SESSION_TTL_M",
        &["SANDBOX_IDLE_TTL", "CONVERSATION_TTL"],
    ),
    foreign_setting(
        "SANDBOX_MAX_SESSIONS",
        &["MAX_CONCURRENT_RUNS", "STORAGE_LIMIT"],
    ),
    foreign_setting("SANDBOX_CLEANUP_INTERVAL_M", &[]),
    foreign_setting("SANDBOX_MAX_UPLOAD_BYTES", &["MAX_UPLOAD_BYTES"]),
    foreign_setting("SANDBOX_MAX_ARTIFACT_READ_BYTES", &[]),
    foreign_setting(
        "SANDBOX_MAX_OUTPUT_BYTES",
        &["RUN_OUTPUT_LIMIT", "OUTPUT_FOR_MODEL"],
    ),
    foreign_setting("SANDBOX_MAX_CODE_BYTES", &["MAX_CODE_BYTES"]),
    foreign_setting("SANDBOX_HTTP_HOST", &["MCP_HTTP_ADDR"]),
    foreign_setting("SANDBOX_HTTP_PORT", &["MCP_HTTP_ADDR", "PUBLIC_BASE_URL"]),
    foreign_setting("SANDBOX_LOG_LEVEL", &["LOG_LEVEL", "RUST_LOG"]),
    foreign_setting("SANDBOX_LOG_FORMAT", &["LOG_FORMAT"]),
    foreign_setting("SANDBOX_LOG_FILE", &[]),
    foreign_setting("MCP_HOST", &["MCP_HTTP_ADDR"]),
    foreign_setting("MCP_PORT", &["MCP_HTTP_ADDR"]),
    foreign_setting("SANDBOX_HOST", &["MCP_HTTP_ADDR"]),
    foreign_setting("SANDBOX_PORT", &["MCP_HTTP_ADDR"]),
    foreign_setting("SERVER_HOST", &["MCP_HTTP_ADDR"]),
    foreign_setting("SERVER_PORT", &["MCP_HTTP_ADDR"]),
    foreign_setting("FASTMCP_HOST", &["MCP_HTTP_ADDR"]),
    foreign_setting("FASTMCP_PORT", &["MCP_HTTP_ADDR"]),
    foreign_setting("MCP_TRANSPORT", &[]),
    foreign_setting("FASTMCP_TRANSPORT", &[]),
    foreign_setting("API_TOKEN", &["MCP_API_TOKEN"]),
    foreign_setting("AUTH_TOKEN", &["MCP_API_TOKEN"]),
    foreign_setting("MCP_API_KEY", &["MCP_API_TOKEN"]),
    foreign_setting("MCP_AUTH_TOKEN", &["MCP_API_TOKEN"]),
    foreign_setting("SANDBOX_API_KEY", &["MCP_API_TOKEN"]),
    foreign_setting("BASE_URL", &["PUBLIC_BASE_URL"]),
    foreign_setting("PUBLIC_URL", &["PUBLIC_BASE_URL"]),
    foreign_setting("CORS_ORIGINS", &["ALLOWED_ORIGINS"]),
    foreign_setting("EXECUTION_TIMEOUT", &["RUN_TIMEOUT"]),
    foreign_setting("SANDBOX_TIMEOUT", &["RUN_TIMEOUT"]),
    foreign_setting("SANDBOX_EXEC_TIMEOUT", &["RUN_TIMEOUT"]),
    foreign_setting("MAX_SESSIONS", &["MAX_CONCURRENT_RUNS", "STORAGE_LIMIT"]),
    foreign_setting("MEMORY_LIMIT", &["RUN_MEMORY"]),
    foreign_setting("SANDBOX_MEMORY", &["RUN_MEMORY"]),
    foreign_setting("CPU_LIMIT", &["RUN_CPUS"]),
    foreign_setting("SANDBOX_CPUS", &["RUN_CPUS"]),
    foreign_setting("FASTMCP_LOG_LEVEL", &["LOG_LEVEL", "RUST_LOG"]),
    foreign_setting("MCP_LOG_LEVEL", &["LOG_LEVEL", "RUST_LOG"]),
];

/// A sentence for every setting of another server that is set while none of ours in its place is. Names such as `HOST`
/// are also set for other reasons, so these are notes and no errors.
pub fn foreign(lookup: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    FOREIGN
        .iter()
        .filter_map(|foreign| foreign.note(lookup))
        .collect()
}

impl Foreign {
    fn note(&self, lookup: &dyn Fn(&str) -> Option<String>) -> Option<String> {
        lookup(self.name)?;
        if self.ours.iter().any(|ours| lookup(ours).is_some()) {
            return None;
        }
        let name = self.name;
        Some(if self.ours.is_empty() {
            format!("note: {name} has no effect here: see docs/moving.md")
        } else {
            let ours = self.ours.join(" and ");
            format!("note: {name} has no effect here: set {ours} instead, see docs/moving.md")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::variables::VARIABLES;
    use super::*;

    fn advice_on(settings: &[(&str, &str)]) -> String {
        let lookup = |name: &str| {
            let found = settings.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        foreign(&lookup).join("\n")
    }

    #[test]
    fn who_moves_here_is_told_our_settings() {
        let settings = [
            ("PORT", "16010"),
            ("API_KEY", "k"),
            ("SANDBOX_MEMORY_LIMIT", "512m"),
            ("SANDBOX_SESSION_TTL_M", "30"),
            ("SANDBOX_LOG_FILE", "x"),
            ("MAX_SESSIONS", "5"),
        ];
        insta::assert_snapshot!(advice_on(&settings), @"
        note: PORT has no effect here: set MCP_HTTP_ADDR instead, see docs/moving.md
        note: API_KEY has no effect here: set MCP_API_TOKEN instead, see docs/moving.md
        note: SANDBOX_MEMORY_LIMIT has no effect here: set RUN_MEMORY instead, see docs/moving.md
        note: SANDBOX_SESSION_TTL_M has no effect here: set SANDBOX_IDLE_TTL and CONVERSATION_TTL instead, see docs/moving.md
        note: SANDBOX_LOG_FILE has no effect here: see docs/moving.md
        note: MAX_SESSIONS has no effect here: set MAX_CONCURRENT_RUNS and STORAGE_LIMIT instead, see docs/moving.md
        ");
    }

    #[test]
    fn names_whose_work_ours_do_already_are_not_told() {
        let settings = [
            ("HOST", "box"),
            ("PORT", "80"),
            ("MCP_HTTP_ADDR", ":80"),
            ("SANDBOX_CPU_LIMIT", "1"),
            ("RUN_CPUS", "1"),
            ("LOG_LEVEL", "INFO"),
            ("DEBUG", "1"),
        ];
        assert_eq!(advice_on(&settings), "");
    }

    #[test]
    fn what_is_told_is_a_setting_and_what_it_replaces_is_none() {
        let is_ours = |name: &str| VARIABLES.iter().any(|variable| variable.name == name);
        for foreign in FOREIGN {
            let known = foreign.ours.iter().all(|name| is_ours(name));
            assert!(known && !is_ours(foreign.name), "{}", foreign.name);
        }
    }
}
