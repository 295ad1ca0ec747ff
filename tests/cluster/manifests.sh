#!/usr/bin/env bash
# The manifests of deploy/kubernetes on the cluster of this machine: applied as they are, but for what this cluster lacks,
# used through the service, by one server and then by two of which one is deleted, and taken away. Its server is an image of the program that cargo has built, whose name is the
# argument, and which the node n1 has. One line per check, at the end a count.
#
# KUBE_TEST_CONFIG   kubeconfig of the administrator
# KUBE_TEST_FILES    what the nodes have at /srv
#
# Needs kubectl, curl and jq, and root, to whom the files do not belong.
set -euo pipefail
cd "$(dirname "$0")/../.."

IMAGE=$1
NODE=n1
SPACE=mcp-code-sandbox
READY_SECONDS=120
LEASE=mcp-code-sandbox

work=$(mktemp -d)
files=$(mktemp -d "$KUBE_TEST_FILES/manifests-XXXXXX")
forwarding=""
# shellcheck source=tests/check.sh
. tests/check.sh

kubectl() { command kubectl --kubeconfig "$KUBE_TEST_CONFIG" "$@"; }
in_space() { kubectl --namespace "$SPACE" --request-timeout 30s "$@"; }

clean_up() {
    end_forwarding
    wait
    kubectl delete namespace "$SPACE" "$SPACE-nodes" --ignore-not-found --timeout 120s || true
    kubectl delete persistentvolume "$SPACE" --ignore-not-found --timeout 30s || true
    rm -rf "$work" "$files"
} >/dev/null 2>&1
trap clean_up EXIT

volume() {
    cat <<END
apiVersion: v1
kind: PersistentVolume
metadata: {name: $SPACE}
spec:
  capacity: {storage: 20Gi}
  accessModes: [ReadWriteMany]
  persistentVolumeReclaimPolicy: Retain
  claimRef: {namespace: $SPACE, name: sandboxes}
  hostPath: {path: /srv/${files##*/}, type: Directory}
END
}

# Here one node has a way to the API server. This kubectl calls other directories `bases`, which later ones know as
# `resources`. overlay LEASE REPLICAS STRATEGY
overlay() {
    cat >"$work/kustomization.yaml" <<END
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
bases: [$(realpath --relative-to "$work" deploy/kubernetes)]
images: [{name: mcp-code-sandbox, newName: ${IMAGE%:*}, newTag: ${IMAGE##*:}}]
patchesStrategicMerge: [patch.yaml]
END
    cat >"$work/patch.yaml" <<END
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: $SPACE}
data: {KUBE_SECCOMP: sandbox.json, POOL_SIZE: shell=1, LEADER_LEASE: "$1"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: server, namespace: $SPACE}
spec:
  replicas: $2
  strategy: {type: $3}
  template:
    spec: {nodeSelector: {kubernetes.io/hostname: $NODE}}
END
}

random() { od -An -N16 -tx1 /dev/urandom | tr -d ' \n'; }

# But for budgets, of which this cluster has an older version.
objects() { command kubectl kustomize "$work" | awk 'BEGIN {RS = ORS = "---\n"} !/\nkind: PodDisruptionBudget\n/'; }

# By the image that every node has here.
profile_is_on_all_nodes() {
    sed 's|image: .*|image: mcp-sandbox-shell|' deploy/kubernetes/profile.yaml | kubectl apply --filename -
    jq 'del(.syscalls[].names[] | select(. == "unshare"))' src/executor/docker/request/seccomp.json |
        kubectl --namespace "$SPACE-nodes" create configmap profile --from-file sandbox.json=/dev/stdin
    kubectl --namespace "$SPACE-nodes" rollout status daemonset/profile --timeout 60s
}

apply() {
    chown 1000:1000 "$files"
    volume | kubectl apply --filename -
    overlay "" 1 Recreate
    objects | kubectl apply --filename -
    in_space create secret generic server --from-literal "MCP_API_TOKEN=$(<"$work/token")" \
        --from-literal "FILE_SECRET=$(random)$(random)"
    scripts/runner-configmap.sh mcp-sandbox-shell | in_space apply --filename -
}

becomes_ready() {
    in_space rollout status deployment/server --request-timeout 0 --timeout "${READY_SECONDS}s" || {
        in_space describe pods
        in_space logs deployment/server
        return 1
    }
}

# may ACCOUNT yes|no VERB...
may() {
    local answer
    answer=$(in_space auth can-i --as "system:serviceaccount:$SPACE:$1" "${@:3}" || true)
    [[ $answer == "$2" ]] || {
        echo "${*:3}, for $1: $answer"
        return 1
    }
}

rights_are_those() {
    may server yes create pods
    may server yes get pods --subresource attach
    may server yes list networkpolicies.networking.k8s.io
    may server no get secrets
    may server no create pods --subresource exec
    may server no list pods --namespace kube-system
    may default no list pods
}

log_is_clean() {
    in_space logs deployment/server | tee /dev/stderr >"$work/log"
    if grep -qE 'is meant|is no setting|forbidden' "$work/log"; then return 1; fi
}

endpoints() { in_space get endpoints server --output 'jsonpath={.subsets[0].addresses[0].ip}:{.subsets[0].ports[0].port}'; }

service_has_the_server() {
    [[ $(endpoints) == "$(in_space get pods --selector app.kubernetes.io/component=server --output 'jsonpath={.items[0].status.podIP}'):8080" ]]
}

end_forwarding() {
    [[ ! $forwarding ]] || kill "$forwarding" 2>/dev/null || true
    forwarding=""
}

# forward TARGET PORT: from a port that is free, which it tells.
forward() {
    end_forwarding
    : >"$work/forward"
    command kubectl --kubeconfig "$KUBE_TEST_CONFIG" --namespace "$SPACE" port-forward "$1" ":$2" >"$work/forward" 2>&1 &
    forwarding=$!
    for _ in {1..100}; do
        port=$(sed -nE 's/^Forwarding from 127\.0\.0\.1:([0-9]+) .*/\1/p' "$work/forward")
        [[ ! $port ]] || return 0
        sleep 0.1
    done
    cat "$work/forward" >&2
    return 1
}

call() {
    jq -n --argjson arguments "$1" '{jsonrpc: "2.0", id: 1, method: "tools/call", params: {name: "run_code", $arguments}}' |
        curl --silent --fail --max-time 120 "http://localhost:$port/mcp" --header "Authorization: Bearer $(<"$work/token")" --data @- |
        jq .result.structuredContent
}

runs() {
    # shellcheck disable=SC2016 # for the program
    call '{"conversationId": "a", "language": "shell", "code": "echo $((6 * 7)) | tee out.txt"}' | tee /dev/stderr |
        jq -e '.status == "ok" and .stdout == "42\n" and .files[0].name == "out.txt"'
    call '{"conversationId": "a", "language": "shell", "code": "cat out.txt"}' | jq -e '.stdout == "42\n"'
}

# Its files are in the claim, and belong to the user of the pods.
files_are_in_the_claim() { [[ $(find "$files" -name out.txt -printf '%U %s\n') == "1000 3" ]]; }

sandboxes() { in_space get pods --selector sandbox.role --no-headers --output name; }

has_sandboxes() { [[ $(sandboxes) ]]; }

# As docs/kubernetes.md says for several servers: the setting first, and then the servers.
is_one_of_several() {
    overlay "$LEASE" 1 Recreate
    objects | kubectl apply --filename -
    in_space rollout restart deployment/server
    becomes_ready
    [[ $(leader) == "$(servers)" ]]
}

has_two() {
    overlay "$LEASE" 2 RollingUpdate
    objects | kubectl apply --filename -
    becomes_ready
    [[ $(servers | wc -l) == 2 ]]
    for _ in {1..20}; do
        [[ $(in_space get endpoints server --output 'jsonpath={.subsets[*].addresses[*].ip}' | wc -w) != 2 ]] || return 0
        sleep 0.5
    done
    return 1
}

servers() { in_space get pods --selector app.kubernetes.io/component=server --no-headers --output name; }

leader() {
    local holder
    holder=$(in_space get lease "$LEASE" --output 'jsonpath={.spec.holderIdentity}')
    echo "pod/${holder%%/*}"
}

# Whoever is asked, and whoever leads.
each_runs() {
    local target
    trap end_forwarding EXIT
    for target in service/server $(servers); do
        if [[ $target == service/* ]]; then forward "$target" 80; else forward "$target" 8080; fi
        runs
    done
}

another_leads() {
    local before
    trap end_forwarding EXIT
    before=$(leader)
    in_space delete --wait=false "$before"
    for _ in {1..100}; do
        [[ $(leader) == @("$before"|pod/) ]] || break
        sleep 0.2
    done
    [[ $(leader) != @("$before"|pod/) ]]
    becomes_ready
    forward service/server 80
    call '{"conversationId": "a", "language": "shell", "code": "cat out.txt"}' | tee /dev/stderr | jq -e '.stdout == "42\n"'
    runs
}

leaves_nothing() {
    in_space delete deployment server --wait=false
    for _ in {1..60}; do
        [[ $(in_space get pods --no-headers --output name) ]] || return 0
        sleep 1
    done
    in_space get pods
    return 1
}

random >"$work/token"
check "the profile gets onto all nodes" profile_is_on_all_nodes
check "the cluster takes all objects" apply
check "the server becomes ready" becomes_ready
((failed == 0)) || exit 1
check "its account has its rights and no others" rights_are_those
check "its log has nothing that is misspelt or refused" log_is_clean
check "the service leads to it" service_has_the_server
forward service/server 80 || port=0
check "a program runs, and the next one has its files" runs
check "files are in the claim" files_are_in_the_claim
check "sandboxes are pods beside it" has_sandboxes
check "the server leads, once it is one of several" is_one_of_several
check "there are two, and both are ready" has_two
check "a program runs through the service and through each of them" each_runs
check "without its leader another one leads, with the same files" another_leads
check "without the deployment no pod is left after a minute" leaves_nothing
echo "$passed passed, $failed failed"
((failed == 0))
