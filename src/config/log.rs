//! How the server logs.

use tracing_subscriber::EnvFilter;

use super::reader::Reader;

const FILTER: &str = "a level such as `info`, or a filter such as `info,mcp_code_sandbox=debug`";

/// How the server logs.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// Lines for people or JSON for machines (`LOG_FORMAT`).
    pub format: LogFormat,
    /// Filter in the syntax of `tracing` (`RUST_LOG`).
    pub filter: String,
}

/// The form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// One line of text.
    Text,
    /// One JSON object.
    Json,
}

impl LogConfig {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let format = match reader.text("LOG_FORMAT").as_deref() {
            Some("json") => LogFormat::Json,
            Some("text") => LogFormat::Text,
            _ => {
                reader.reject("LOG_FORMAT", "`text` or `json`");
                LogFormat::Text
            }
        };
        Self {
            format,
            filter: reader.parse("RUST_LOG", FILTER, String::new(), |value| {
                EnvFilter::try_new(value).ok().map(|_| value.to_owned())
            }),
        }
    }
}
