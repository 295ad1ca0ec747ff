//! Why no engine answers at an address: the one place that looks through the causes of a failed connection.

use std::error::Error as _;
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::time::Duration;

use bollard::errors::Error as BollardError;
use thiserror::Error;

use crate::executor::{ErrorKind, ExecutorError};

/// No engine answers at an address; what is wrong, and what to do about it.
#[derive(Debug, Error)]
#[error("{host}: {cause}")]
pub(super) struct Unreachable {
    host: String,
    cause: Cause,
}

/// What is wrong at an address.
#[derive(Debug, Error, PartialEq, Eq)]
enum Cause {
    #[error(
        "permission denied: this user may not use the socket. Add the user to the group docker (`sudo usermod -aG docker \
         USER`) and log in again, or set DOCKER_GID where the server is a container"
    )]
    Denied,
    #[error(
        "there is no such file: start the engine, or set DOCKER_HOST to the address of its socket"
    )]
    Missing,
    #[error("this is {0} and not a socket: set DOCKER_HOST to the address of the engine's socket")]
    NotASocket(&'static str),
    #[error(
        "connection refused, nothing listens there: start the engine, or set DOCKER_HOST to its address"
    )]
    Refused,
    #[error("there is no host of that name: set DOCKER_HOST to the engine's address")]
    NoSuchHost,
    #[error("the host cannot be reached: {0}")]
    NoRoute(io::ErrorKind),
    #[error("no answer within {} s", .0.as_secs())]
    Slow(Duration),
    #[error(
        "what answers there is no container engine ({0}): set DOCKER_HOST to the engine's address"
    )]
    NotAnEngine(String),
    #[error("{0}")]
    Other(String),
}

impl Cause {
    const fn kind(&self) -> ErrorKind {
        match self {
            Self::Denied | Self::NotASocket(_) | Self::NoSuchHost | Self::NotAnEngine(_) => {
                ErrorKind::Unusable
            }
            Self::Missing | Self::Refused => ErrorKind::Absent,
            Self::NoRoute(_) | Self::Slow(_) | Self::Other(_) => ErrorKind::Unavailable,
        }
    }
}

impl Unreachable {
    /// What an error says about the address, if it says anything about it.
    pub(super) fn of(host: &str, error: &BollardError) -> Option<Self> {
        let cause = match error {
            BollardError::SocketNotFoundError(_) => Cause::Missing,
            BollardError::HyperLegacyError { err } if err.is_connect() => refused(error),
            _ => return io_error(error).map(|cause| Self::at(host, cause)),
        };
        Some(Self::at(host, cause))
    }

    /// The same for the first request, to which only an engine has the right answer.
    pub(super) fn of_the_first(host: &str, error: &BollardError) -> Self {
        Self::of(host, error).unwrap_or_else(|| {
            let cause = match error {
                BollardError::DockerResponseServerError {
                    status_code,
                    message,
                } => {
                    // An engine in trouble says so, and so does a filter in front of it.
                    if *status_code >= 500 || *status_code == 403 {
                        Cause::Other(error.to_string())
                    } else {
                        Cause::NotAnEngine(format!("status {status_code} {}", shortened(message)))
                    }
                }
                BollardError::JsonDataError { .. } | BollardError::JsonSerdeError { .. } => {
                    Cause::NotAnEngine("its answer is no JSON".to_owned())
                }
                BollardError::APIVersionParseError {}
                | BollardError::StrParseError { .. }
                | BollardError::HttpClientError { .. } => Cause::NotAnEngine(error.to_string()),
                _ if is_no_http(error) => Cause::NotAnEngine("it does not speak HTTP".to_owned()),
                _ => Cause::Other(super::chain(error)),
            };
            Self::at(host, cause)
        })
    }

    /// There was no answer for that long.
    pub(super) fn slow(host: &str, limit: Duration) -> Self {
        Self::at(host, Cause::Slow(limit))
    }

    fn at(host: &str, cause: Cause) -> Self {
        // What is there says more than how it failed: every file that is no socket refuses connections.
        let cause = match host.strip_prefix("unix://").map(look) {
            Some(Some(seen)) if matches!(cause, Cause::Missing | Cause::Refused) => seen,
            _ => cause,
        };
        Self {
            host: host.to_owned(),
            cause,
        }
    }

    /// As the failure of an operation.
    pub(super) fn into_error(self, operation: &'static str) -> ExecutorError {
        ExecutorError {
            kind: self.cause.kind(),
            operation,
            source: self.into(),
        }
    }
}

/// What is wrong with the file at a path, if anything is.
fn look(path: &str) -> Option<Cause> {
    match std::fs::metadata(path) {
        Ok(file) if file.file_type().is_socket() => None,
        Ok(file) if file.is_dir() => Some(Cause::NotASocket("a directory")),
        Ok(_) => Some(Cause::NotASocket("a file")),
        Err(error) => of_io(error.kind()),
    }
}

/// Why there was no connection.
fn refused(error: &BollardError) -> Cause {
    io_error(error).unwrap_or_else(|| {
        let causes = super::chain(error);
        if causes.contains("failed to lookup address") || causes.contains("dns error") {
            Cause::NoSuchHost
        } else {
            Cause::Other(causes)
        }
    })
}

fn causes(error: &BollardError) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(error.source(), |cause| (*cause).source())
}

/// The error of the system among the causes.
fn io_error(error: &BollardError) -> Option<Cause> {
    let direct = match error {
        BollardError::IOError { err } => Some(err),
        _ => None,
    };
    let found =
        direct.or_else(|| causes(error).find_map(|cause| cause.downcast_ref::<io::Error>()))?;
    of_io(found.kind())
}

fn of_io(kind: io::ErrorKind) -> Option<Cause> {
    match kind {
        io::ErrorKind::PermissionDenied => Some(Cause::Denied),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Some(Cause::Missing),
        io::ErrorKind::ConnectionRefused => Some(Cause::Refused),
        kind @ (io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::TimedOut) => Some(Cause::NoRoute(kind)),
        _ => None,
    }
}

/// Whether the other side sent something that is no HTTP.
fn is_no_http(error: &BollardError) -> bool {
    causes(error)
        .filter_map(|cause| cause.downcast_ref::<hyper::Error>())
        .any(hyper::Error::is_parse)
}

/// The first line of what a stranger answered.
fn shortened(message: &str) -> String {
    let line = message.trim().lines().next().unwrap_or_default();
    line.chars().take(60).collect()
}
