#!/usr/bin/env bash
# Measures runs on the cluster of this directory: bench/cluster.rs. One that was up before is used, and left as it was.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/cluster/common.sh
. tests/cluster/common.sh

cargo bench --locked --bench cluster --no-run
if ! tests/cluster/cluster.sh status >/dev/null 2>&1; then
    trap 'tests/cluster/cluster.sh down' EXIT
    tests/cluster/cluster.sh up
fi
scripts/runner-configmap.sh "$SMOKE_IMAGE" | tests/cluster/cluster.sh kubectl apply --filename -
# As docs/kubernetes.md has it made.
jq 'del(.syscalls[].names[] | select(. == "unshare"))' src/executor/docker/request/seccomp.json >"$STATE/seccomp/bench.json"
KUBE_TEST_CONFIG=$(tests/cluster/cluster.sh kubeconfig)
KUBE_TEST_SERVER_CONFIG=$(tests/cluster/cluster.sh kubeconfig server)
export KUBE_TEST_CONFIG KUBE_TEST_SERVER_CONFIG KUBE_TEST_CLAIM=$CLAIM KUBE_TEST_FILES=$STATE/files
export KUBE_TEST_PROFILE=bench.json PATH=$BIN:$PATH NO_PROXY='*'
cargo bench --locked --bench cluster
