#!/usr/bin/env bash
# A cluster of Kubernetes on this machine, for the tests: each node is a container of Docker, in a network without a way
# out. Needs root.
#
#   tests/cluster/cluster.sh build                 builds what is missing for one, and says whether this machine can have it
#   tests/cluster/cluster.sh up [NODES]            two of them, if nothing else is said; what is missing is built first
#   tests/cluster/cluster.sh down                  removes it, also what a crash has left; what was built stays
#   tests/cluster/cluster.sh status                its nodes, its claim, what it uses
#   tests/cluster/cluster.sh kubeconfig [server]   prints where that is: of the administrator, or with the server's rights
#   tests/cluster/cluster.sh kubectl ARGUMENT...
#   tests/cluster/cluster.sh load IMAGE [NODE...]  takes an image of Docker to all nodes, or to these, such as n1
#   tests/cluster/cluster.sh smoke                 tries it, as up does at its end
#   tests/cluster/cluster.sh purge                 down, and what was built goes as well
#
# A cluster that is elsewhere is used instead by its kubeconfig in KUBE_TEST_CONFIG: see smoke.sh, beside this script.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/cluster/common.sh
. tests/cluster/common.sh
# shellcheck source=tests/cluster/create.sh
. tests/cluster/create.sh

usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' tests/cluster/cluster.sh; }

containers() { docker ps --all --quiet --filter "label=$LABEL=$CLUSTER"; }

names() { docker ps --all --format '{{.Names}}' --filter "label=$LABEL=$CLUSTER" --filter "label=$LABEL.node" | sort; }

need_cluster() { [[ $(names) ]] || die "no cluster is up. Run: tests/cluster/cluster.sh up"; }

build() {
    need_machine
    tests/cluster/build.sh
    need_nodes
}

# One that came up and has as many nodes is taken as it is.
up() {
    local count=${1:-2} begun=$SECONDS
    [[ $count =~ ^[1-9]$ ]] || die "NODES is a number from 1 to 9"
    docker image inspect "$SMOKE_IMAGE" >/dev/null 2>&1 || die "there is no image $SMOKE_IMAGE. Run: ./build.sh shell"
    build
    if [[ ! -e $STATE/came-up || $(names | wc -l) != "$count" ]] || ! nodes_are_ready "$count"; then
        down
        stage "Starting the nodes" 5 create "$count"
    fi
    stage "Waiting for the control plane and the nodes" 30 wait_for_nodes "$count"
    stage "Making the namespace, the claim and the account" 5 create_objects
    # shellcheck disable=SC2046 # a name each
    stage "Loading $SMOKE_IMAGE into the nodes" 30 load_first $(names)
    smoke
    touch "$STATE/came-up"
    say "The cluster is up, after $((SECONDS - begun)) s: export KUBECONFIG=$(kubeconfig admin)"
}

smoke() {
    need_cluster
    KUBE_TEST_CONFIG=$(kubeconfig admin) PATH=$BIN:$PATH NO_PROXY='*' tests/cluster/smoke.sh
}

# Containers first: they hold the network, and what is mounted from here.
down() {
    local left
    left=$(containers)
    # shellcheck disable=SC2086 # an id each
    [[ ! $left ]] || stage "Removing the nodes" 15 docker rm --force --volumes $left
    left=$(docker network ls --quiet --filter "label=$LABEL=$CLUSTER")
    # shellcheck disable=SC2086
    [[ ! $left ]] || docker network rm $left >/dev/null
    rm -rf --one-file-system "$STATE"
}

# Fails when there is none, or when one did not come up or does not answer.
status() {
    need_cluster
    [[ -e $STATE/came-up ]] || die "the cluster did not come up. Run: tests/cluster/cluster.sh up"
    kubectl get nodes,pvc,pods --output wide
    # shellcheck disable=SC2046
    docker stats --no-stream --format '{{.Name}}  {{.MemUsage}}  processor {{.CPUPerc}}' $(names)
    say "Its files are in $STATE/files, and its logs in $LOGS."
}

kubeconfig() {
    local file=$STATE/pki/$1.kubeconfig
    [[ -e $file ]] || die "there is no $file. Run: tests/cluster/cluster.sh up"
    echo "$file"
}

load_named() {
    local image=${1:?IMAGE is missing} nodes
    need_cluster
    shift
    if (($#)); then nodes=("${@/#/$CLUSTER-}"); else mapfile -t nodes < <(names); fi
    stage "Loading $image" 20 load "$image" "${nodes[@]}"
}

# Images that another cluster of this machine is made of stay.
purge() {
    local image
    down
    rm -rf "$CACHE"
    for image in $(docker images --quiet --filter "label=$LABEL" | sort -u); do
        docker rmi "$image" >/dev/null || say "$image is in use, and stays"
    done
}

case ${1:-} in
    build | up | smoke | down | status | purge) "$@" ;;
    # Without the time limit of our own questions.
    kubectl) kubectl --request-timeout 0 "${@:2}" ;;
    kubeconfig) kubeconfig "${2:-admin}" ;;
    load) load_named "${@:2}" ;;
    -h | --help) usage ;;
    *)
        usage >&2
        exit 2
        ;;
esac
