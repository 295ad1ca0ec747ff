//! How the server logs.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use super::reader::Reader;

const FILTER: &str = "a level such as `info`, or a filter such as `info,mcp_code_sandbox=debug`";
const LEVEL: &str = "`trace`, `debug`, `info` or `notice`, `warn` or `warning`, `error`, `critical` or `fatal`, or `off`";
/// The server's own modules.
const OWN: &str = "mcp_code_sandbox";
/// Levels as other programs name them, and as we do.
const OTHER_LEVELS: [(&str, &str); 4] = [
    ("warning", "warn"),
    ("critical", "error"),
    ("fatal", "error"),
    ("notice", "info"),
];

/// How the server logs.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// Lines for people or JSON for machines (`LOG_FORMAT`).
    pub format: LogFormat,
    /// Filter in the syntax of `tracing` (`RUST_LOG`, or else `LOG_LEVEL`), in which libraries say more than `info`
    /// only if they are named: their details include programs, outputs and secrets.
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
        let filter = if reader.is_set("LOG_LEVEL") && !reader.is_set("RUST_LOG") {
            reader.parse("LOG_LEVEL", LEVEL, String::new(), |word| {
                level_of(word).map(of_level)
            })
        } else {
            reader.parse("RUST_LOG", FILTER, String::new(), |value| {
                let filter = bounded(value);
                EnvFilter::try_new(&filter).is_ok().then_some(filter)
            })
        };
        Self { format, filter }
    }
}

/// A level in the words of any logging library, such as `WARNING`; `None` if it is none.
fn level_of(word: &str) -> Option<LevelFilter> {
    let word = word.trim().to_ascii_lowercase();
    let other = OTHER_LEVELS.iter().find(|(name, _)| *name == word);
    let name = other.map_or(word.as_str(), |(_, ours)| ours);
    let is_word = name.bytes().all(|byte| byte.is_ascii_alphabetic());
    name.parse().ok().filter(|_| is_word && !name.is_empty())
}

/// Reports as an error that nobody is there for an answer: a client that has hung up.
const HUNG_UP: &str = "rmcp::service=off";

/// The filter of one level. The MCP library's messages about its own activity are left out, as they are by default.
fn of_level(level: LevelFilter) -> String {
    let libraries = level.min(LevelFilter::INFO);
    let rmcp = level.min(LevelFilter::WARN);
    format!("{libraries},rmcp={rmcp},{HUNG_UP},{OWN}={level}")
}

/// A filter in which a level without a target, beyond `info`, counts for our own modules alone. `tracing` would take
/// a level in the words of other programs for the name of a module, and log nothing. Clients that hang up are left out
/// unless their library is named.
fn bounded(filter: &str) -> String {
    let level = |directive: &str| directive.parse().ok().or_else(|| level_of(directive));
    let bound = |directive: &str| match level(directive) {
        Some(level) if level > LevelFilter::INFO => format!("info,{OWN}={level}"),
        Some(level) => level.to_string(),
        None => directive.to_owned(),
    };
    let directives = filter.split(',').map(str::trim);
    let silent = (!filter.contains("rmcp")).then(|| HUNG_UP.to_owned());
    let directives = directives.map(bound).chain(silent);
    directives.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_say_more_than_info_only_if_they_are_named() {
        for (given, bounds) in [
            ("info,rmcp=warn", "info,rmcp=warn"),
            ("error", "error,rmcp::service=off"),
            ("WARNING", "warn,rmcp::service=off"),
            ("critical,rmcp=off", "error,rmcp=off"),
            ("debug", "info,mcp_code_sandbox=debug,rmcp::service=off"),
            ("TRACE", "info,mcp_code_sandbox=trace,rmcp::service=off"),
            ("4", "info,mcp_code_sandbox=debug,rmcp::service=off"),
            ("debug,rmcp=warn", "info,mcp_code_sandbox=debug,rmcp=warn"),
            ("info, rmcp=debug", "info,rmcp=debug"),
            (
                "warn,mcp_code_sandbox::run=debug",
                "warn,mcp_code_sandbox::run=debug,rmcp::service=off",
            ),
        ] {
            assert_eq!(bounded(given), bounds);
            assert!(EnvFilter::try_new(bounded(given)).is_ok(), "{given}");
        }
    }

    #[test]
    fn levels_have_the_names_of_any_library() {
        for (word, filter) in [
            (
                "INFO",
                Some("info,rmcp=warn,rmcp::service=off,mcp_code_sandbox=info"),
            ),
            (
                "WARNING",
                Some("warn,rmcp=warn,rmcp::service=off,mcp_code_sandbox=warn"),
            ),
            (
                "critical",
                Some("error,rmcp=error,rmcp::service=off,mcp_code_sandbox=error"),
            ),
            (
                "Debug",
                Some("info,rmcp=warn,rmcp::service=off,mcp_code_sandbox=debug"),
            ),
            ("10", None),
            ("verbose", None),
            ("", None),
        ] {
            assert_eq!(level_of(word).map(of_level).as_deref(), filter, "{word}");
        }
    }
}
