//! A cluster in place of an engine, and several servers on it.

use crate::config::variable::{Variable, variable};

pub(super) const KUBERNETES: &[Variable] = &[
    variable(
        "KUBECONFIG",
        "",
        "file that says where the cluster is and who the server is there; default: the service account of the server's pod",
    ),
    variable(
        "KUBE_NAMESPACE",
        "",
        "namespace of the sandboxes; default: the server's own",
    ),
    variable(
        "KUBE_VOLUME_CLAIM",
        "",
        "claim whose files the server has at SANDBOX_ROOT and sandboxes mount parts of, so ReadWriteMany; required with EXECUTOR=kubernetes",
    ),
    variable(
        "KUBE_VOLUME_PATH",
        "",
        "directory of that claim that is SANDBOX_ROOT; default: all of it",
    ),
    variable(
        "KUBE_SECCOMP",
        "RuntimeDefault",
        "filter of system calls that nodes apply: `RuntimeDefault`, or a profile that is on every node, such as `sandbox.json`",
    ),
    variable(
        "KUBE_CPU_REQUEST",
        "0.1",
        "processor cores of a node that are set aside for each sandbox; 0: none",
    ),
    variable(
        "KUBE_NODE_SELECTOR",
        "",
        "comma-separated labels that nodes of sandboxes must have, such as `pool=sandboxes`",
    ),
    variable(
        "KUBE_TOLERATIONS",
        "",
        "comma-separated taints that nodes of sandboxes may have, such as `for=sandboxes:NoSchedule`",
    ),
    variable("KUBE_PRIORITY_CLASS", "", "priority class of sandboxes"),
    variable(
        "KUBE_PULL_SECRETS",
        "",
        "comma-separated secrets with which nodes pull runner images",
    ),
    variable(
        "KUBE_LOG_LIMIT",
        "64m",
        "bytes of a node's disk that the output of one sandbox may take",
    ),
    variable(
        "POD_NAME",
        "",
        "name of the server's pod, given by its manifest: with this pod, its sandboxes go",
    ),
    variable(
        "POD_UID",
        "",
        "id of the server's pod, given by its manifest",
    ),
    variable(
        "POD_IP",
        "",
        "address of the server's pod, given by its manifest: servers that stand by reach it there",
    ),
    variable(
        "LEADER_LEASE",
        "",
        "Lease by which one of several servers leads while the others stand by, such as `mcp-code-sandbox`; default: there is one server only",
    ),
    variable(
        "LEASE_DURATION",
        "10s",
        "how long servers that stand by wait for a leader that is not heard of",
    ),
];
