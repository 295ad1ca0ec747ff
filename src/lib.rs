//! An MCP server that runs code in hardened, ephemeral containers.
//!
//! `ARCHITECTURE.md` has the order of the modules and the rules that hold between them, `docs/design/map.md` where each
//! thing is.
#![forbid(unsafe_code)]

pub mod access;
pub mod admin;
pub mod allow_list;
mod api;
pub mod app;
pub mod argument;
pub mod audit;
pub mod checks;
pub mod config;
pub mod control;
pub mod conversation;
pub mod conversations;
pub mod egress;
pub mod executor;
pub mod expiry;
pub mod files;
pub mod gate;
pub mod http;
pub mod kernels;
pub mod ledger;
pub mod links;
pub mod login;
pub mod mcp;
pub mod metrics;
pub mod oauth;
pub mod packages;
pub mod parts;
pub mod pool;
pub mod principal;
pub mod private_file;
pub mod replicas;
pub mod run;
pub mod runner;
pub mod sandbox;
pub mod scope;
pub mod secrets;
pub mod services;
pub mod status;
pub mod tally;
pub mod telemetry;
pub mod workspace;

/// Version and commit.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("BUILD_COMMIT"), ")");

mod body;
mod healthcheck;
mod recent;
mod units;
pub use healthcheck::healthcheck;
