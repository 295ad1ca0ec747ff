#!/usr/bin/env bash
# What the scripts of the cluster share: its names, where things are, how they speak. Sourced from the repository's root.
# shellcheck disable=SC2034 # used by those that source it

# Debian's source package, and the compiler that it is built with: a newer one of either is built anew.
KUBERNETES=1.20.5+really1.20.2-1.1+deb12u1
KUBERNETES_RELEASE=1.20.2
GO=golang-1.19-go
SUITE=bookworm

CACHE=$PWD/.build/cluster
# What belongs to the cluster that is up. It goes with it.
STATE=$CACHE/up
LOGS=$CACHE/logs

# Each checkout has a cluster of its own, and all that Docker keeps for it bears this label.
CLUSTER=mcp-cluster-$(cksum <<<"$PWD" | cut -d' ' -f1)
LABEL=mcp-code-sandbox.cluster
NAMESPACE=mcp-sandbox
CLAIM=sandboxes

# Names of things that are built end in what they are built of.
hash_of() { sha256sum | cut -c1-12; }
BUILD=$(printf '%s\n' "$KUBERNETES" "$GO" "$(<tests/cluster/compile.sh)" "$(<tests/cluster/pause.c)" | hash_of)
BIN=$CACHE/$BUILD/bin
NODE_PACKAGES=(ca-certificates conntrack containerd containernetworking-plugins ethtool etcd-server iproute2 iptables kmod
    mount procps runc socat util-linux)
NODE_IMAGE=mcp-cluster-node:$(printf '%s\n' "$SUITE" "${NODE_PACKAGES[@]}" | hash_of)
# Its name is in containerd.toml.
PAUSE_IMAGE=mcp-cluster-pause:latest
SMOKE_IMAGE=mcp-sandbox-shell

# shellcheck source=scripts/progress.sh
. scripts/progress.sh

say() { printf '%s\n' "$*" >&2; }

die() {
    say "error: $*"
    exit 1
}

# stage WHAT SECONDS COMMAND...: says how long it took of about SECONDS, or ends it all with the end of its log.
stage() {
    local what=$1 seconds=$2 begun=${EPOCHREALTIME/[.,]/} log
    shift 2
    log=$LOGS/$(tr -cs 'a-zA-Z0-9\n' - <<<"${what,,}").log
    with_progress "$what" "$seconds" "$log" "$@" || {
        tail -n 40 "$log" >&2
        die "$what: failed; all of it is in $log"
    }
    local tenths=$(((${EPOCHREALTIME/[.,]/} - begun) / 100000))
    say "  took $((tenths / 10)).$((tenths % 10)) s"
}
