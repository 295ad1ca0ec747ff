#!/usr/bin/env bash
# The tests that need a cluster of Kubernetes: brings one up, tries it, runs those of the executor and of the server on it,
# and takes it down. One that was up before is used, and left as it was.
#
# One that is elsewhere is used if these are set:
#   KUBE_TEST_CONFIG          kubeconfig of its administrator; its context names the namespace
#   KUBE_TEST_SERVER_CONFIG   the same with the rights of the server (KUBE_TEST_CONFIG)
#   KUBE_TEST_CLAIM           a claim in there that all nodes can write to (sandboxes)
#   KUBE_TEST_FILES           where this machine has the files of that claim; without it, the cluster is only tried
# The runner of shell must be in the namespace: scripts/runner-configmap.sh. What breaks a cluster is not done to it.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/cluster/common.sh
. tests/cluster/common.sh

# tests FILTER...
tests() { cargo test --workspace --locked --lib --bins --tests -- "$@"; }

if [[ ${KUBE_TEST_CONFIG:-} ]]; then
    tests/cluster/smoke.sh
    if [[ ! ${KUBE_TEST_FILES:-} ]]; then
        say "KUBE_TEST_FILES is not set, so the tests of the executor are left out"
        exit
    fi
    export KUBE_TEST_SERVER_CONFIG=${KUBE_TEST_SERVER_CONFIG:-$KUBE_TEST_CONFIG} KUBE_TEST_CLAIM=${KUBE_TEST_CLAIM:-$CLAIM}
    tests kubernetes_executor kubernetes_server --test-threads 3
    exit
fi
if tests/cluster/cluster.sh status >/dev/null 2>&1; then
    tests/cluster/cluster.sh smoke
else
    trap 'tests/cluster/cluster.sh down' EXIT
    tests/cluster/cluster.sh up
fi
# Images may have been built since it came up.
tests/cluster/cluster.sh load "$SMOKE_IMAGE"
scripts/runner-configmap.sh "$SMOKE_IMAGE" | tests/cluster/cluster.sh kubectl apply --filename -
KUBE_TEST_CONFIG=$(tests/cluster/cluster.sh kubeconfig)
KUBE_TEST_SERVER_CONFIG=$(tests/cluster/cluster.sh kubeconfig server)
export KUBE_TEST_CONFIG KUBE_TEST_SERVER_CONFIG
export KUBE_TEST_CLAIM=$CLAIM KUBE_TEST_FILES=$STATE/files KUBE_TEST_NODES=$CLUSTER KUBE_TEST_SECCOMP=$STATE/seccomp PATH=$BIN:$PATH NO_PROXY='*'
tests kubernetes_executor kubernetes_server --test-threads 3
tests kubernetes_faults --test-threads 1
tests kubernetes_volumes
