#!/usr/bin/env bash
# Makes sure that the image every runner starts from, debian:trixie-slim, is there; with FRESH=1, that it is today's.
#
# It is pulled if a registry answers. Where none does, it is bootstrapped from Debian packages, with the
# host's CA certificates on top, so that TLS inside builds trusts whatever this host trusts.
set -euo pipefail
# shellcheck source=scripts/progress.sh
. "$(dirname "$0")/progress.sh"

IMAGE=debian:trixie-slim
SUITE=trixie
PULL_SECONDS=60

say() { printf '%s\n' "$*" >&2; }

die() {
    say "error: $*"
    exit 1
}

need_mmdebstrap() {
    command -v mmdebstrap >/dev/null && return
    command -v apt-get >/dev/null || die "mmdebstrap is missing. Install it, or load $IMAGE into the engine"
    [[ $EUID -eq 0 ]] || die "mmdebstrap is missing. Run: sudo apt-get install -y mmdebstrap debian-archive-keyring"
    say "Installing mmdebstrap"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        mmdebstrap debian-archive-keyring >/dev/null
}

# The same files are left out as in the registry's slim image; licences stay.
bootstrap() {
    mmdebstrap --quiet --variant=minbase --include=ca-certificates \
        --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/info/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' \
        --dpkgopt='path-exclude=/usr/share/doc/*' \
        --dpkgopt='path-include=/usr/share/doc/*/copyright' \
        "$SUITE" "$1"
}

add_host_certificates() {
    local context=$1 bundle=/etc/ssl/certs/ca-certificates.crt
    [[ -r $bundle ]] || die "no CA bundle at $bundle. Run: sudo apt-get install -y ca-certificates"
    cp -L "$bundle" "$context/ca-certificates.crt"
    printf 'FROM %s\nCOPY ca-certificates.crt %s\n' "$IMAGE-bootstrap" "$bundle" >"$context/Dockerfile"
    docker build --quiet --tag "$IMAGE" "$context" >/dev/null
    docker rmi --no-prune "$IMAGE-bootstrap" >/dev/null
}

main() {
    [[ -z ${FRESH:-} ]] && docker image inspect "$IMAGE" >/dev/null 2>&1 && return
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    with_progress "Pulling $IMAGE" 10 "$work/error" timeout "$PULL_SECONDS" docker pull --quiet "$IMAGE" && return

    say "It cannot be pulled: $(tail -n 1 "$work/error" | grep . || echo "no answer in $PULL_SECONDS s")"
    need_mmdebstrap
    with_progress "Bootstrapping $IMAGE from Debian packages instead" 30 "$work/log" bootstrap "$work/root.tar" || {
        tail -n 20 "$work/log" >&2
        die "$IMAGE could not be bootstrapped"
    }
    docker import --change 'CMD ["bash"]' "$work/root.tar" "$IMAGE-bootstrap" >/dev/null
    rm "$work/root.tar"
    add_host_certificates "$work"
    say "Made $IMAGE"
}

main "$@"
