#!/usr/bin/env bash
# A node of the cluster, from inside its container: containerd and the kubelet; in the first one the control plane too.
#
#   node.sh check          whether a container may do here what a node has to
#   node.sh NUMBER ADDRESS
set -euo pipefail

K8S=/k8s
PKI=$K8S/pki
LOG=/var/log/node
export PATH=$K8S/bin:$PATH

# What the kubelet has to write to is read-only in a container, and what it mounts has to be seen by pods.
prepare() {
    local place group=/sys/fs/cgroup
    mount --make-rshared /
    for place in /sys/fs/cgroup /sys/fs/cgroup/* /proc/sys; do
        ! mountpoint -q "$place" || mount -o remount,rw,bind "$place"
        # Of a control group's file system as such, where the machine lets us.
        mount -o remount,rw "$place" 2>/dev/null || true
    done
    # The first version has a tree for each controller.
    [[ ! -d $group/memory ]] || group=$group/memory
    mkdir "$group/check"
    rmdir "$group/check"
    [[ -e /dev/kmsg ]] || mknod /dev/kmsg c 1 11
    head -c 0 /dev/kmsg
    [[ ! -e /sys/fs/cgroup/cgroup.controllers ]] || delegate
}

# In version 2 a group with controllers for its children has no process of its own.
delegate() {
    local process
    mkdir -p /sys/fs/cgroup/init
    while read -r process; do
        echo "$process" >/sys/fs/cgroup/init/cgroup.procs || true
    done </sys/fs/cgroup/cgroup.procs
    sed -e 's/ / +/g' -e 's/^/+/' /sys/fs/cgroup/cgroup.controllers >/sys/fs/cgroup/cgroup.subtree_control
}

# Pods of a node reach each other, the node, and the API server by the address that every pod is told; and there is no
# other way out.
write_network() {
    mkdir -p /etc/cni/net.d
    cat >/etc/cni/net.d/10-pods.conflist <<END
{"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false,
  "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.$1.0/24"}]], "routes": [{"dst": "10.96.0.1/32"}]}}]}
END
    local to=(REDIRECT --to-ports 6443) control=${2%.*}.10
    [[ $1 == 1 ]] || to=(DNAT --to-destination "$control:6443")
    iptables -w -t nat -A PREROUTING -d 10.96.0.1 -p tcp --dport 443 -j "${to[@]}"
    iptables -w -t nat -A POSTROUTING -s "10.244.$1.0/24" -d "$control" -j MASQUERADE
}

# in_background NAME COMMAND...: its log goes on where it was.
in_background() {
    local name=$1
    shift
    "$@" >>"$LOG/$name.log" 2>&1 &
}

# As systemd would: what is killed comes back.
for_ever() {
    while :; do
        "$@" || true
        sleep 0.5
    done
}

start_control_plane() {
    in_background etcd for_ever etcd --data-dir /var/lib/etcd --unsafe-no-fsync --listen-peer-urls http://127.0.0.1:2380 \
        --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379
    in_background apiserver for_ever kube-apiserver --etcd-servers http://127.0.0.1:2379 --advertise-address "$1" \
        --secure-port 6443 --insecure-port 0 --client-ca-file $PKI/ca.crt \
        --tls-cert-file $PKI/apiserver.crt --tls-private-key-file $PKI/apiserver.key \
        --kubelet-certificate-authority $PKI/ca.crt --kubelet-preferred-address-types InternalIP \
        --kubelet-client-certificate $PKI/kubelet-client.crt --kubelet-client-key $PKI/kubelet-client.key \
        --service-account-issuer https://kubernetes.default --service-account-key-file $PKI/accounts.pub \
        --service-account-signing-key-file $PKI/accounts.key --service-cluster-ip-range 10.96.0.0/16 \
        --authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction --allow-privileged=true
    until kubectl --kubeconfig $PKI/admin.kubeconfig get --raw /readyz >/dev/null 2>&1; do sleep 0.2; done
    # Claims are bound and dead nodes noticed within seconds, for tests that wait for both.
    in_background controllers for_ever kube-controller-manager --kubeconfig $PKI/controllers.kubeconfig \
        --service-account-private-key-file $PKI/accounts.key --root-ca-file $PKI/ca.crt \
        --use-service-account-credentials=true --leader-elect=false \
        --pvclaimbinder-sync-period=1s --node-monitor-period=1s --node-monitor-grace-period=10s
    in_background scheduler for_ever kube-scheduler --kubeconfig $PKI/scheduler.kubeconfig --leader-elect=false
}

main() {
    local number=$1 address=$2
    mkdir -p "$LOG"
    prepare
    write_network "$number" "$address"
    install -m 600 "$PKI/n$number.key" /run/node.key
    cp "$PKI/n$number.crt" /run/node.crt
    in_background containerd for_ever containerd --config $K8S/node/containerd.toml
    [[ $number != 1 ]] || start_control_plane "$address"
    until [[ -S /run/containerd/containerd.sock ]]; do sleep 0.1; done
    for_ever kubelet --kubeconfig "$PKI/n$number.kubeconfig" --config $K8S/node/kubelet.yaml \
        --hostname-override "n$number" --node-ip "$address" --root-dir /var/lib/kubelet \
        --container-runtime remote --container-runtime-endpoint unix:///run/containerd/containerd.sock \
        >>"$LOG/kubelet.log" 2>&1
}

if [[ $1 == check ]]; then prepare; else main "$@"; fi
