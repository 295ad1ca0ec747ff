#!/usr/bin/env bash
# Builds what the cluster is made of, where it is not there: the programs of Kubernetes, once, and the images of nodes and
# of pods' first process.
#
# Packages and sources come from Debian to this machine. Compiling needs no network, and so has none.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/cluster/common.sh
. tests/cluster/common.sh

HALF=$CACHE/half
BUILDER=mcp-cluster-builder:$BUILD
# shellcheck disable=SC2016 # expanded by mmdebstrap, which has the directory as $1
FETCH='chroot "$1" sh -ec "mkdir /source && cd /source && apt-get source --download-only --only-source kubernetes='$KUBERNETES'"'

need_mmdebstrap() {
    command -v mmdebstrap >/dev/null || install_with_progress 20 mmdebstrap debian-archive-keyring
}

# An image $1 of Debian packages $3..., in which $2 was run as a hook. They are fetched here and not in a container, which
# may have no way out.
bootstrap_image() {
    local image=$1 hook=$2 mirror=http://deb.debian.org/debian packages
    shift 2
    packages=$(IFS=, && echo "$*")
    mmdebstrap --variant=apt --include="$packages" --customize-hook="$hook" --dpkgopt=force-unsafe-io \
        --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
        "$SUITE" - "deb $mirror $SUITE main" "deb-src $mirror $SUITE main" \
        "deb http://deb.debian.org/debian-security $SUITE-security main" |
        docker import --change "LABEL $LABEL=built" - "$image"
}

has_image() { docker image inspect "$1" >/dev/null 2>&1; }

compile() {
    # It takes what is left of the processor: other things may be compiled beside it.
    docker run --rm --cpu-shares 128 --name "$CLUSTER-compile" --label "$LABEL=$CLUSTER" --network none --sig-proxy=false \
        --volume "$PWD/tests/cluster/compile.sh:/compile.sh:ro" --volume "$PWD/tests/cluster/pause.c:/pause.c:ro" \
        --volume "$HALF/cache:/work/.cache" --volume "$HALF/bin:/out" "$BUILDER" nice -n 5 bash /compile.sh "$KUBERNETES_RELEASE"
}

# They are there only when all of them are. A build that was interrupted goes on where it was.
build_programs() {
    [[ ! -x $BIN/kubectl ]] || return 0
    say "Kubernetes $KUBERNETES_RELEASE has to be built, once; it takes 2 GB of disk meanwhile and keeps 0.4"
    need_mmdebstrap
    has_image "$BUILDER" || stage "Fetching the sources of Kubernetes and a compiler" 120 \
        bootstrap_image "$BUILDER" "$FETCH" "$GO" dpkg-dev gcc libc6-dev patch xz-utils
    docker rm --force "$CLUSTER-compile" >/dev/null 2>&1 || true
    mkdir -p "$HALF"/{bin,cache}
    trap 'docker rm --force "$CLUSTER-compile" >/dev/null 2>&1 || true' EXIT
    stage "Compiling Kubernetes" 500 compile
    mkdir -p "$CACHE/$BUILD"
    mv "$HALF/bin" "$BIN"
    rm -rf "$HALF"
    build_pause_image >/dev/null
    docker rmi --no-prune "$BUILDER" >/dev/null
}

build_node_image() {
    ! has_image "$NODE_IMAGE" || return 0
    need_mmdebstrap
    stage "Making the image of nodes" 90 bootstrap_image "$NODE_IMAGE" true "${NODE_PACKAGES[@]}"
}

build_pause_image() {
    tar -C "$BIN" -c pause | docker import --change "LABEL $LABEL=built" --change 'ENTRYPOINT ["/pause"]' - "$PAUSE_IMAGE"
}

mkdir -p "$CACHE"
build_programs
build_node_image
has_image "$PAUSE_IMAGE" || build_pause_image >/dev/null
