//! Logs: to standard error, as text or JSON. Panics go there too.

use tracing::error;
use tracing_subscriber::EnvFilter;

use crate::config::{LogConfig, LogFormat};

/// Starts logging for the whole process.
pub fn init(config: &LogConfig) {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(&config.filter))
        .with_writer(std::io::stderr)
        // They would go to standard error, whose failure they report: a panic, and with our hook one within a panic.
        .log_internal_errors(false);
    match config.format {
        LogFormat::Text => builder
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
            .init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
    std::panic::set_hook(Box::new(|panic| {
        let location = panic
            .location()
            .map(ToString::to_string)
            .unwrap_or_default();
        error!(
            panic.location = location,
            panic.message = panic.payload_as_str().unwrap_or("?"),
            "panicked"
        );
    }));
}
