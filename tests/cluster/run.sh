#!/usr/bin/env bash
# The tests that need a cluster of Kubernetes: brings one up, tries it, runs on it those of the executor, of the server, of
# its sandbox, of clients and of its manifests, and takes it down. The program has to be built by cargo first. One that was
# up before is used, and left as it was.
#
# One that is elsewhere is used if these are set:
#   KUBE_TEST_CONFIG          kubeconfig of its administrator; its context names the namespace
#   KUBE_TEST_SERVER_CONFIG   the same with the rights of the server (KUBE_TEST_CONFIG)
#   KUBE_TEST_CLAIM           a claim in there that all nodes can write to (sandboxes)
#   KUBE_TEST_PROFILE         a seccomp profile on its nodes that lets sandboxes unshare: docs/kubernetes.md
#   KUBE_TEST_FILES           where this machine has the files of that claim; without it, the cluster is tried, and no more
# The runners of shell, python and typescript must be in the namespace: scripts/runner-configmap.sh. What breaks a cluster
# is not done to it.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/cluster/common.sh
. tests/cluster/common.sh

# tests FILTER...
tests() { cargo test --workspace --locked --lib --bins --tests -- "$@"; }

# timed WHAT COMMAND...: says how long it took.
timed() {
    local what=$1 begun=$SECONDS status=0
    shift
    "$@" || status=$?
    say "  $what took $((SECONDS - begun)) s"
    return "$status"
}

# All that leaves the cluster as it was. The selftest mostly waits, and goes on beside the others; those of replicas watch
# the clock, and so come before what keeps both cores busy.
tests_that_break_nothing() {
    local selftest status=0
    timed 'the selftest' tests kubernetes_selftest >"$LOGS/selftest.log" 2>&1 &
    selftest=$!
    timed 'the executor, the server and replicas' \
        tests kubernetes_executor kubernetes_replicas kubernetes_server --test-threads 3 || status=$?
    timed 'two servers beside one' tests kubernetes_balanced || status=$?
    timed 'what Docker does as well' tests on_kubernetes on_warm_kubernetes --test-threads 3 || status=$?
    timed 'clients' tests/clients/run.sh sdks || status=$?
    wait "$selftest" || status=$?
    cat "$LOGS/selftest.log"
    return "$status"
}

OTHER_IMAGES=(mcp-sandbox-python mcp-sandbox-typescript)
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
        die "the cluster is fine, but the tests need to see the files of its claim: set KUBE_TEST_FILES"
    fi
    export KUBE_TEST_SERVER_CONFIG=${KUBE_TEST_SERVER_CONFIG:-$KUBE_TEST_CONFIG} KUBE_TEST_CLAIM=${KUBE_TEST_CLAIM:-$CLAIM}
    tests_that_break_nothing
    exit
fi
trap clean_up EXIT
if tests/cluster/cluster.sh status >/dev/null 2>&1; then
    tests/cluster/cluster.sh smoke
else
    UP=1
    tests/cluster/cluster.sh up
fi
# Images may have been built since it came up. Those of interpreters are large, and are loaded while something else is done.
[[ $UP ]] || tests/cluster/cluster.sh load "$SMOKE_IMAGE"
for image in "${OTHER_IMAGES[@]}"; do tests/cluster/cluster.sh load "$image"; done >"$LOGS/images.log" 2>&1 &
loading=$!
KUBE_TEST_CONFIG=$(tests/cluster/cluster.sh kubeconfig)
KUBE_TEST_SERVER_CONFIG=$(tests/cluster/cluster.sh kubeconfig server)
export KUBE_TEST_CONFIG KUBE_TEST_SERVER_CONFIG
export KUBE_TEST_CLAIM=$CLAIM KUBE_TEST_FILES=$STATE/files KUBE_TEST_NODES=$CLUSTER KUBE_TEST_PROFILE=sandbox.json PATH=$BIN:$PATH NO_PROXY='*'
# As docs/kubernetes.md has it.
jq 'del(.syscalls[].names[] | select(. == "unshare"))' src/executor/docker/request/seccomp.json >"$STATE/seccomp/sandbox.json"
load_server
timed 'the manifests' tests/cluster/manifests.sh "$SERVER_IMAGE"
wait "$loading" || die "an image could not be loaded: $(<"$LOGS/images.log")"
for image in "$SMOKE_IMAGE" "${OTHER_IMAGES[@]}"; do
    scripts/runner-configmap.sh "$image" | tests/cluster/cluster.sh kubectl apply --filename -
done
tests_that_break_nothing
timed 'what breaks the cluster' tests kubernetes_faults kubernetes_network --test-threads 1
tests kubernetes_volumes
