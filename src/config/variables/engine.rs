//! The container engine, and what sandboxes are to it.

use crate::config::variable::{Variable, variable};

pub(super) const ENGINE: &[Variable] = &[
    variable(
        "DOCKER_HOST",
        "",
        "container engine, such as unix:///run/podman/podman.sock; default: Docker's usual socket",
    ),
    variable(
        "SANDBOX_RUNTIME",
        "",
        "the engine's runtime for sandboxes, such as `runsc`; default: the engine's own",
    ),
    variable(
        "SANDBOX_CGROUP_PARENT",
        "",
        "control group above all sandboxes, such as `/` or `sandboxes.slice`; default: the engine's own",
    ),
    variable(
        "SANDBOX_UIDS",
        "",
        "user ids of which each conversation has one for itself, such as `70000-99999`, recommended where people share the server; needs a server that is root; default: one for all, 1000 where the server is root",
    ),
    variable(
        "ALLOW_WEAKER_SANDBOX",
        "",
        "controls that may fail the check at the start without runs being refused, such as `syscalls,limits`",
    ),
    variable(
        "ALLOW_NETWORK",
        "0",
        "1 allows `network: true` without proof that the host is out of reach",
    ),
    variable(
        "FIREWALL_REPORT",
        "",
        "file in which `deploy/firewall` reports that the rules are in place; default: the server checks them itself",
    ),
    variable(
        "RUN_DNS",
        "",
        "comma-separated resolvers for runs with a network; default: those of the host",
    ),
    variable(
        "RUN_SUBNETS",
        "198.19.0.0/16",
        "addresses that the host does not use otherwise; each run with a network gets four of them for a network of its own",
    ),
];
