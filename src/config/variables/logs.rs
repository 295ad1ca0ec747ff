//! What is written down of what happens.

use crate::config::variable::{Variable, variable};

pub(super) const LOGS: &[Variable] = &[
    variable(
        "AUDIT_LOG",
        "",
        "file that says who did what, one line of JSON for each event, or `stdout`; default: none; see docs/audit.md",
    ),
    variable(
        "AUDIT_REQUIRED",
        "0",
        "whether runs, installs and changes of files are refused while AUDIT_LOG cannot be written",
    ),
    variable("LOG_FORMAT", "text", "`text` or `json`"),
    variable(
        "LOG_LEVEL",
        "",
        "level of the log, such as `debug` or `WARNING`, if RUST_LOG is not set",
    ),
    variable(
        "RUST_LOG",
        "info,rmcp=warn,rmcp::service=off",
        "log filter, such as `debug` or `mcp_code_sandbox=debug`; libraries say more than `info` only if they are named",
    ),
];
