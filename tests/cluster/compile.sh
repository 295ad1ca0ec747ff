#!/usr/bin/env bash
# Compiles Kubernetes $1 from Debian's source package in /source into /out. Runs in the builder's container, which has no
# network.
set -euo pipefail

RELEASE=$1
PROGRAMS=(kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl)
PACKAGE=k8s.io/kubernetes
# Without what talks to the interfaces of clouds and to Docker, which would be half of the work.
TAGS=providerless,dockerless
export GOPATH=/work/go HOME=/work GO111MODULE=off CGO_ENABLED=0
PATH=$(echo /usr/lib/go-*/bin):$PATH
done_steps=0

step() { printf '[%d/%d] %s\n' $((++done_steps)) $((${#PROGRAMS[@]} + 2)) "$*"; }

unpack() {
    mkdir -p "$GOPATH/src/k8s.io"
    dpkg-source --no-check -x /source/kubernetes_*.dsc "$GOPATH/src/$PACKAGE"
    cd "$GOPATH/src/$PACKAGE"
}

# The packages that say they are part of the interface's description.
described_packages() {
    grep -rl --include='*.go' -E '^// \+k8s:openapi-gen=' pkg staging/src/k8s.io |
        grep -vE '/(testdata|sample-[a-z]*|examples?)/|_test.go|code-generator|kube-openapi/test' |
        xargs -n1 dirname | sed -e "s#^staging/src/#$PACKAGE/vendor/#" -e "s#^pkg/#$PACKAGE/pkg/#" | sort -u | paste -sd,
}

# The source package is without this one file, which its build generates.
generate_openapi() {
    local into=pkg/generated/openapi generated=/work/generated
    mkdir -p "$generated"
    go build -o /work/openapi-gen "$PACKAGE/vendor/k8s.io/kube-openapi/cmd/openapi-gen"
    /work/openapi-gen -i "$(described_packages)" -p "$PACKAGE/$into" -O zz_generated.openapi \
        -h hack/boilerplate/boilerplate.generatego.txt -r "$generated/violations" --output-base "$generated"
    cp "$generated/$PACKAGE/$into/zz_generated.openapi.go" "$into/"
}

# What it says when it is asked for its version.
linker_flags() {
    local package path
    printf -- '-s -w'
    for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
        for path in "$package" "$PACKAGE/vendor/$package"; do
            printf -- ' -X %s.%s' "$path" "gitVersion=v$RELEASE" "$path" "gitMajor=$(cut -d. -f1 <<<"$RELEASE")" \
                "$path" "gitMinor=$(cut -d. -f2 <<<"$RELEASE")" "$path" gitTreeState=clean "$path" gitCommit=debian
        done
    done
}

step unpacking
unpack
gcc -Os -static -s -o /out/pause /pause.c
step generating
generate_openapi
flags=$(linker_flags)
for program in "${PROGRAMS[@]}"; do
    step "$program"
    go build -tags "$TAGS" -o "/out/$program" -ldflags "$flags" "$PACKAGE/cmd/$program"
done
