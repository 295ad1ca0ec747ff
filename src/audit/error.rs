//! What is wrong with the audit log.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why a server cannot begin with the log that it is given.
#[derive(Debug, Error)]
pub enum AuditError {
    /// It cannot be opened or read.
    #[error("AUDIT_LOG={path} cannot be opened for writing", path = path.display())]
    Unopenable {
        /// Where it should be.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is a link.
    #[error("AUDIT_LOG={path} is a link, which is not followed: name the file itself", path = path.display())]
    Link {
        /// Where it is.
        path: PathBuf,
    },
    /// It is a folder, a pipe or a socket.
    #[error("AUDIT_LOG={path} is no file: name a file, or `stdout`", path = path.display())]
    NoFile {
        /// Where it is.
        path: PathBuf,
    },
    /// Another server has it.
    #[error("AUDIT_LOG={path} is written by another server: give each a file of its own", path = path.display())]
    Taken {
        /// Where it is.
        path: PathBuf,
    },
    /// It has something else in it.
    #[error("AUDIT_LOG={path} does not end with a line of an audit log: move it away, or name another file", path = path.display())]
    Foreign {
        /// Where it is.
        path: PathBuf,
    },
    /// There is no standard output, or it is of the protocol.
    #[error("AUDIT_LOG=stdout is not possible: {0}")]
    NoStdout(String),
    /// Signals are not to be had.
    #[error("SIGHUP cannot be heard, at which AUDIT_LOG is opened again")]
    Signal(#[source] io::Error),
}

/// Why nothing is done for a caller.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error(
    "the audit log cannot be written, and nothing is done without it (AUDIT_REQUIRED): ask the operator to make room for \
     AUDIT_LOG or to mend what the server's log says of it"
)]
pub struct AuditUnavailable;
