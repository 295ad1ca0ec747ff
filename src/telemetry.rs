//! Logs: to standard error, as text or JSON. Panics go there too.

use tracing::{error, warn};
use tracing_subscriber::EnvFilter;

use crate::config::{LogConfig, LogFormat};

/// Starts logging for the whole process. A filter that cannot be parsed is replaced by `info`, and that is said.
pub fn init(config: &LogConfig) {
    let (filter, wrong) = match EnvFilter::try_new(&config.filter) {
        Ok(filter) => (filter, None),
        Err(error) => (EnvFilter::new("info"), Some(error)),
    };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match config.format {
        LogFormat::Text => builder
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
            .init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
    std::panic::set_hook(Box::new(|panic| {
        let place = panic
            .location()
            .map(ToString::to_string)
            .unwrap_or_default();
        error!(
            panic.place = place,
            panic.message = panic.payload_as_str().unwrap_or("?"),
            "panicked"
        );
    }));
    if let Some(error) = wrong {
        warn!(%error, "RUST_LOG is not a log filter: `info` is used");
    }
}
