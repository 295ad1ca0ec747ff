#!/usr/bin/env bash
# Tries a cluster: all nodes are ready, the claim is bound, and on each node a pod of the shell runner, confined as
# sandboxes are, sees what those before it have written into the claim.
#
# KUBE_TEST_CONFIG   kubeconfig of the cluster; its context names the namespace
# KUBE_TEST_CLAIM    a claim in there that all nodes can write to, and that belongs to user 1000 (sandboxes)
# KUBE_TEST_IMAGES   what comes before the names of runner images, such as registry.example/team/ (nothing)
#
# Needs kubectl.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/cluster/common.sh
. tests/cluster/common.sh

CLAIM=${KUBE_TEST_CLAIM:-$CLAIM}
IMAGE=${KUBE_TEST_IMAGES:-}$SMOKE_IMAGE
RUN=smoke-$$
POD_SECONDS=120

kubectl() { command kubectl --kubeconfig "$KUBE_TEST_CONFIG" --request-timeout 30s "$@"; }

nodes() { kubectl get nodes --output 'jsonpath={range .items[*]}{.metadata.name}{"\n"}{end}'; }

not_ready() { kubectl get nodes --no-headers | awk '$2 != "Ready" {print $1}'; }

# What a pod runs: it says what holds it, and lists what it and the others have written.
program() {
    cat <<'END'
id -u
sed -nE 's/^(CapBnd|CapEff|NoNewPrivs|Seccomp):\t/\1 /p' /proc/self/status
touch /written 2>/dev/null || echo "the root is read-only"
echo "/tmp has $(df -k --output=size /tmp | tail -n 1 | tr -d " ") KiB"
mkdir -p "/data/.$RUN" && touch "/data/.$RUN/$NODE" && ls "/data/.$RUN"
END
}

# It says this, line for line.
expected() {
    printf '%s\n' 1000 'CapEff 0000000000000000' 'CapBnd 0000000000000000' 'NoNewPrivs 1' 'Seccomp 2'
    printf '%s\n' 'the root is read-only' '/tmp has 65536 KiB' "$@"
}

# pod NODE NUMBER SCRIPT
pod() {
    cat <<END
apiVersion: v1
kind: Pod
metadata: {name: $RUN-$2, labels: {mcp-code-sandbox.cluster: smoke}}
spec:
  nodeSelector: {kubernetes.io/hostname: $1}
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  activeDeadlineSeconds: $POD_SECONDS
  automountServiceAccountToken: false
  enableServiceLinks: false
  hostname: sandbox
  dnsPolicy: None
  dnsConfig: {nameservers: [127.0.0.1]}
  securityContext: {runAsUser: 1000, runAsGroup: 1000, runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: r
    image: $IMAGE
    imagePullPolicy: IfNotPresent
    command: [/bin/bash, -c, $(jq -Rs . <<<"$3")]
    env: [{name: RUN, value: $RUN}, {name: NODE, value: $1}]
    terminationMessagePath: /.sandbox-termination
    resources: {limits: {cpu: 500m, memory: 64Mi}, requests: {cpu: 10m, memory: 64Mi}}
    securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
    volumeMounts: [{name: root, mountPath: /data}, {name: tmp, mountPath: /tmp}]
  volumes:
  - {name: root, persistentVolumeClaim: {claimName: $CLAIM}}
  - {name: tmp, emptyDir: {medium: Memory, sizeLimit: 64Mi}}
END
}

phase() { kubectl get pod "$1" --output 'jsonpath={.status.phase}'; }

# run_pod NODE NUMBER SCRIPT: leaves what it printed in the file said-NUMBER.
run_pod() {
    local name=$RUN-$2 deadline=$((SECONDS + POD_SECONDS)) now=""
    pod "$@" | kubectl apply --filename - || return 1
    until [[ $now == Succeeded || $now == Failed ]]; do
        ((SECONDS < deadline)) || break
        sleep 0.2
        now=$(phase "$name") || return 1
    done
    kubectl logs "$name" >"$work/said-$2" || true
    [[ $now == Succeeded ]] || {
        kubectl describe pod "$name"
        return 1
    }
}

try_node() {
    run_pod "$@" && diff <(expected "${tried[@]}") "$work/said-$2"
}

remove_pods() { kubectl delete pods --selector mcp-code-sandbox.cluster=smoke --now --ignore-not-found; }

work=$(mktemp -d)
trap 'remove_pods >/dev/null 2>&1 || true; rm -rf "$work"' EXIT
[[ -r ${KUBE_TEST_CONFIG:-} ]] || die "KUBE_TEST_CONFIG must name a kubeconfig: of tests/cluster/cluster.sh up, or of a cluster elsewhere"
command -v kubectl >/dev/null || die "kubectl is missing"

mapfile -t all < <(nodes | sort)
((${#all[@]})) || die "the cluster has no nodes"
[[ -z $(not_ready) ]] || die "these nodes are not ready: $(not_ready | tr '\n' ' ')"
bound=$(kubectl get pvc "$CLAIM" --output 'jsonpath={.status.phase}')
[[ $bound == Bound ]] || die "the claim $CLAIM is $bound"
say "All nodes are ready (${all[*]}), and the claim is bound"
tried=()
for node in "${all[@]}"; do
    tried+=("$node")
    stage "Running a pod on $node" 5 try_node "$node" "${#tried[@]}" "$(program)"
done
stage "Removing what the pods wrote" 5 run_pod "${all[0]}" 0 "rm -r /data/.$RUN"
