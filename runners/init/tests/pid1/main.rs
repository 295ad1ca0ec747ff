//! `sandbox-init` as PID 1 of real namespaces, on the wire. Needs root to make them, but no Docker.

#![expect(
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "tests of real processes use real time, and a panic says where"
)]

mod confined;
mod drivers;
mod environment;
mod held;
mod helpers;
mod kernel;
mod network;
mod plain;
mod scrub;
mod secrecy;
mod standing;
mod support;
mod uncounted;
