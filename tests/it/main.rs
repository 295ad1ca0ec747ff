//! One integration binary. Everything goes through one boundary: an HTTP request in, its whole answer out.
//!
//! The modules whose names begin with `docker` need a container engine and the runner images: `./test.sh` provides
//! both. Without them they fail, since a skipped test looks like one that passed.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod access;
mod answers;
mod browser;
mod config;
mod connections;
mod docker_attacks;
mod docker_engine;
mod docker_inputs;
mod docker_interference;
mod docker_kernels;
mod docker_languages;
mod docker_leaks;
mod docker_moving;
mod docker_network;
mod docker_packages;
mod docker_packages_index;
mod docker_packages_npm;
mod docker_parity;
mod docker_selftest;
mod docker_shows;
mod docker_stdio;
mod docker_uids;
mod dotenv;
mod engine;
mod engine_trouble;
mod envelopes;
mod expiry;
mod fairness;
mod files;
mod inputs;
mod kernels;
mod lanes;
mod live;
mod logs;
mod mcp;
mod mcp_client;
mod mcp_transports;
mod meanings;
mod metrics;
mod mistakes;
mod moving;
mod network;
mod packages;
mod page;
mod pool;
mod process;
mod readings;
mod resources;
mod rest;
mod rest_document;
mod rest_files;
mod resumption;
mod runs;
mod schemas;
mod selftest;
mod sse;
mod stdio;
mod stop;
mod support;
mod toolsets;
mod uids;
mod waits;
