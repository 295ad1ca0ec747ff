#!/usr/bin/env bash
# The tests that need a cluster of Kubernetes: brings one up, tries it, runs those of the executor, of the server and of its
# manifests on it, and takes it down. The program has to be built by cargo first. One that was up before is used, and left as it was.
#
# One that is elsewhere is used if these are set:
#   KUBE_TEST_CONFIG          kubeconfig of its administrator; its context names the namespace
#   KUBE_TEST_SERVER_CONFIG   the same with the rights of the server (KUBE_TEST_CONFIG)
#   KUBE_TEST_CLAIM           a claim in there that all nodes can write to (sandboxes)
#   KUBE_TEST_PROFILE         a seccomp profile on its nodes that lets sandboxes unshare: docs/kubernetes.md
#   KUBE_TEST_FILES           where this machine has the files of that claim; without it, the cluster is only tried
# The runner of shell must be in the namespace: scripts/runner-configmap.sh. What breaks a cluster is not done to it.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/cluster/common.sh
. tests/cluster/common.sh

# tests FILTER...
tests() { cargo test --workspace --locked --lib --bins --tests -- "$@"; }

SERVER_IMAGE=mcp-code-sandbox:cluster-test-$$
UP=""

clean_up() {
    [[ ! $UP ]] || tests/cluster/cluster.sh down
    docker rmi "$SERVER_IMAGE" >/dev/null 2>&1 || true
    rm -rf .build/image
}

# The program that the other tests use, without debug information, on the node that manifests.sh wants it on.
load_server() {
    local built=${CARGO_TARGET_DIR:-target}/debug/mcp-code-sandbox
    [[ -x $built ]] || die "$built is not there: run cargo build first"
    docker buildx version >/dev/null 2>&1 || export DOCKER_BUILDKIT=0
    scripts/base-images.sh
    mkdir -p .build/image
    strip -o .build/image/mcp-code-sandbox "$built"
    docker build --quiet --tag "$SERVER_IMAGE" --build-arg BINARY=.build/image/mcp-code-sandbox . >/dev/null
    tests/cluster/cluster.sh load "$SERVER_IMAGE" n1
}

if [[ ${KUBE_TEST_CONFIG:-} ]]; then
    tests/cluster/smoke.sh
    if [[ ! ${KUBE_TEST_FILES:-} ]]; then
        say "KUBE_TEST_FILES is not set, so the tests of the executor are left out"
        exit
    fi
    export KUBE_TEST_SERVER_CONFIG=${KUBE_TEST_SERVER_CONFIG:-$KUBE_TEST_CONFIG} KUBE_TEST_CLAIM=${KUBE_TEST_CLAIM:-$CLAIM}
    tests kubernetes_executor kubernetes_replicas kubernetes_server --test-threads 3
    tests kubernetes_balanced
    exit
fi
trap clean_up EXIT
if tests/cluster/cluster.sh status >/dev/null 2>&1; then
    tests/cluster/cluster.sh smoke
else
    UP=1
    tests/cluster/cluster.sh up
fi
# Images may have been built since it came up.
tests/cluster/cluster.sh load "$SMOKE_IMAGE"
scripts/runner-configmap.sh "$SMOKE_IMAGE" | tests/cluster/cluster.sh kubectl apply --filename -
KUBE_TEST_CONFIG=$(tests/cluster/cluster.sh kubeconfig)
KUBE_TEST_SERVER_CONFIG=$(tests/cluster/cluster.sh kubeconfig server)
export KUBE_TEST_CONFIG KUBE_TEST_SERVER_CONFIG
export KUBE_TEST_CLAIM=$CLAIM KUBE_TEST_FILES=$STATE/files KUBE_TEST_NODES=$CLUSTER KUBE_TEST_SECCOMP=$STATE/seccomp PATH=$BIN:$PATH NO_PROXY='*'
load_server
tests/cluster/manifests.sh "$SERVER_IMAGE"
tests kubernetes_executor kubernetes_replicas kubernetes_server --test-threads 3
tests kubernetes_balanced
tests kubernetes_faults kubernetes_network --test-threads 1
tests kubernetes_volumes
