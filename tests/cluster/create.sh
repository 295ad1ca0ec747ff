#!/usr/bin/env bash
# How a cluster comes up: its network, its keys, its nodes, what tests find in it. Sourced by cluster.sh, after common.sh.
# What `stage` calls says by its status whether it worked: inside a condition no failure ends a function.
# shellcheck disable=SC2154 # set in common.sh

cannot() { die "$*. Without that, KUBE_TEST_CONFIG can name the kubeconfig of a cluster that is elsewhere"; }

need_machine() {
    [[ $EUID -eq 0 ]] || cannot "the cluster needs root"
    docker version >/dev/null 2>&1 || cannot "the cluster's nodes are containers of Docker, and no engine answers (scripts/install-docker.sh)"
    [[ ${DOCKER_HOST:-unix://} == unix://* ]] || cannot "the nodes see directories of this machine, and DOCKER_HOST is elsewhere"
    command -v openssl >/dev/null || install_with_progress 10 openssl
}

# What nodes may do and see. The capability that is left out is one that not every machine has to give.
NODE=(--cgroupns=private --cap-add ALL --cap-drop SYS_RESOURCE --device-cgroup-rule 'a *:* rwm'
    --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined
    --label "$LABEL=$CLUSTER" --volume "$PWD/tests/cluster/node:/k8s/node:ro")

need_nodes() {
    local refusal
    refusal=$(docker run --rm --network none "${NODE[@]}" "$NODE_IMAGE" /k8s/node/node.sh check 2>&1) ||
        cannot "a container may not do here what a node has to: $(head -n 1 <<<"$refusal")"
}

# The first range of addresses that nothing else has here.
create_network() {
    local third
    for third in {78..97}; do
        ! docker network create --internal --label "$LABEL=$CLUSTER" --subnet "172.31.$third.0/24" "$CLUSTER" || return 0
    done
    return 1
}

# address NUMBER: of a node.
address() {
    local subnet
    subnet=$(docker network inspect --format '{{(index .IPAM.Config 0).Subnet}}' "$CLUSTER")
    echo "${subnet%.*}.$((9 + $1))"
}

# The account of pods owns the files. Filters of system calls that pods name as Localhost go into seccomp.
create_state() {
    local number addresses=()
    for ((number = 1; number <= $1; number++)); do addresses+=("$(address $number)"); done
    mkdir -p "$STATE"/{pki,files,seccomp} && chown 1000:1000 "$STATE/files" &&
        tests/cluster/pki.sh "$STATE/pki" "${addresses[@]}"
}

# Names are looked up nowhere: Docker would ask outside, whatever the network is. What containerd and the kubelet keep is
# in a volume: a file system of layers cannot be in another one.
create_node() {
    mkdir -p "$LOGS/n$1"
    docker run --detach --name "$CLUSTER-n$1" --hostname "n$1" --network "$CLUSTER" --ip "$(address "$1")" --dns 127.0.0.1 \
        "${NODE[@]}" --label "$LABEL.node=n$1" --tmpfs /run --tmpfs /tmp --volume /var/lib --volume "$BIN:/k8s/bin:ro" \
        --volume "$STATE/pki:/k8s/pki:ro" --volume "$STATE/seccomp:/var/lib/kubelet/seccomp" \
        --volume "$STATE/files:/srv" --volume "$LOGS/n$1:/var/log/node" \
        "$NODE_IMAGE" /k8s/node/node.sh "$1" "$(address "$1")"
}

create() {
    local number
    create_network && create_state "$1" || return 1
    for ((number = 1; number <= $1; number++)); do create_node "$number" || return 1; done
}

kubectl() { NO_PROXY='*' "$BIN/kubectl" --kubeconfig "$STATE/pki/admin.kubeconfig" --request-timeout 30s "$@"; }

# until_true SECONDS COMMAND...: what it says at last is in the log.
until_true() {
    local deadline=$((SECONDS + $1))
    shift
    until "$@"; do
        ((SECONDS < deadline)) || return 1
        sleep 0.3
    done
}

nodes_are_ready() { [[ $(kubectl get nodes --no-headers 2>&1 | grep -cw Ready) == "$1" ]]; }

wait_for_nodes() {
    until_true 180 nodes_are_ready "$1" || {
        kubectl get nodes
        tail -n 10 "$LOGS"/n*/*.log
        return 1
    }
}

claim_is_bound() { [[ $(kubectl get pvc "$CLAIM" --output 'jsonpath={.status.phase}') == Bound ]]; }

# A namespace takes pods only when its account is there.
create_objects() {
    kubectl apply --filename tests/cluster/objects.yaml && until_true 60 kubectl get serviceaccount default &&
        until_true 60 claim_is_bound
}

load_into() { docker save "$2" | docker exec --interactive "$1" ctr --namespace k8s.io images import -; }

# What every pod needs, and the one that is tried.
load_first() { load "$PAUSE_IMAGE" "$@" && load "$SMOKE_IMAGE" "$@"; }

# load IMAGE NODE...
load() {
    local image=$1 node loading=() status=0
    shift
    for node in "$@"; do
        load_into "$node" "$image" &
        loading+=($!)
    done
    for node in "${loading[@]}"; do wait "$node" || status=$?; done
    return "$status"
}
