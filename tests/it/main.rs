//! One integration binary. Everything goes through one boundary: an HTTP request in, its whole answer out.
//!
//! The modules whose names begin with `docker` need a container engine and the runner images: `./test.sh` provides
//! both. Without them they fail, since a skipped test looks like one that passed. Those whose names begin with
//! `kubernetes_` need a cluster, which `./test.sh cluster` makes.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod access;
mod admin;
mod answers;
mod asking;
mod attacks;
mod audit;
mod browser;
mod config;
mod connections;
mod docker_driver;
mod docker_egress;
mod docker_engine;
mod docker_hints;
mod docker_inputs;
mod docker_interference;
mod docker_kernels;
mod docker_languages;
mod docker_leaks;
mod docker_light;
mod docker_moving;
mod docker_network;
mod docker_packages;
mod docker_packages_changes;
mod docker_packages_index;
mod docker_packages_listed;
mod docker_packages_npm;
mod docker_packages_proxy;
mod docker_packages_versions;
mod docker_secrets;
mod docker_selftest;
mod docker_shows;
mod docker_stdio;
mod docker_uids;
mod docker_upgrade;
mod dotenv;
mod engine;
mod engine_trouble;
mod envelopes;
mod expiry;
mod fairness;
mod files;
mod framed;
mod hints;
mod inputs;
mod kernels;
#[cfg(feature = "kubernetes")]
mod kubernetes_balanced;
#[cfg(feature = "kubernetes")]
mod kubernetes_executor;
#[cfg(feature = "kubernetes")]
mod kubernetes_faults;
mod kubernetes_network;
mod kubernetes_replicas;
mod kubernetes_selftest;
mod kubernetes_server;
mod kubernetes_volumes;
mod lanes;
mod listed_hosts;
mod live;
mod login;
mod logs;
mod mcp;
mod mcp_client;
mod mcp_transports;
mod me;
mod meanings;
mod metrics;
mod mistakes;
mod moving;
mod named_runs;
mod network;
mod oauth;
mod open_nodes;
mod packages;
mod page;
mod parity;
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
mod scopes;
mod secrets;
mod selftest;
mod sse;
mod standby;
mod stdio;
mod stop;
mod support;
mod tasks;
mod tenants;
mod toolsets;
mod uids;
mod volume;
mod waits;
