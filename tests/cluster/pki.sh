#!/usr/bin/env bash
# Makes the keys of a cluster in the directory $1: one authority, a certificate for each part, and kubeconfigs. Names and
# organisations are those by which Kubernetes knows its own parts. The first of the addresses $2... is the control plane's.
set -euo pipefail
cd "$1"
shift

ADDRESS=$1
SERVER_ACCOUNT=system:serviceaccount:mcp-sandbox:server
DAYS=365

key() { openssl ecparam -name prime256v1 -genkey -noout | openssl pkcs8 -topk8 -nocrypt -out "$1.key"; }

# leaf NAME SUBJECT [OTHER NAMES]
leaf() {
    key "$1"
    openssl req -new -key "$1.key" -subj "$2" -out "$1.csr"
    openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -out "$1.crt" -days $DAYS -extfile <(
        printf '%s\n' basicConstraints=CA:FALSE keyUsage=digitalSignature extendedKeyUsage=serverAuth,clientAuth \
            ${3:+"subjectAltName=$3"}
    ) 2>&1
    rm "$1.csr"
}

# kubeconfig NAME: of that leaf.
kubeconfig() {
    cat >"$1.kubeconfig" <<END
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://$ADDRESS:6443", certificate-authority-data: $(base64 -w0 ca.crt)}}]
users: [{name: u, user: {client-certificate-data: $(base64 -w0 "$1.crt"), client-key-data: $(base64 -w0 "$1.key")}}]
contexts: [{name: x, context: {cluster: c, user: u, namespace: mcp-sandbox}}]
current-context: x
END
}

umask 077
key ca
openssl req -x509 -new -key ca.key -subj /CN=test-cluster -days $DAYS -out ca.crt
key accounts
openssl pkey -in accounts.key -pubout -out accounts.pub

leaf apiserver /CN=kube-apiserver "DNS:kubernetes,DNS:kubernetes.default,DNS:localhost,IP:127.0.0.1,IP:10.96.0.1,IP:$ADDRESS"
leaf kubelet-client /O=system:masters/CN=apiserver-kubelet
leaf admin /O=system:masters/CN=admin
leaf controllers /CN=system:kube-controller-manager
leaf scheduler /CN=system:kube-scheduler
# With the rights of the ServiceAccount, for a server outside the cluster.
leaf server /CN=$SERVER_ACCOUNT
for name in admin controllers scheduler server; do kubeconfig $name; done

number=0
for address in "$@"; do
    number=$((number + 1))
    leaf "n$number" "/O=system:nodes/CN=system:node:n$number" "DNS:n$number,IP:$address"
    kubeconfig "n$number"
done
