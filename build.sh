#!/usr/bin/env bash
# Builds the runner images: every runners/<name>/Dockerfile becomes mcp-sandbox-<name>:latest.
#
#   ./build.sh                 all of them
#   ./build.sh python shell    only these
#
# Honours DOCKER_HOST, and docker's context without it. Nothing changed means nothing built: the layer cache answers in seconds.
set -euo pipefail
cd "$(dirname "$0")"

say() { printf '%s\n' "$*" >&2; }

die() {
    say "error: $*"
    exit 1
}

# BuildKit where the client has it; the classic builder does as well.
choose_builder() {
    if docker buildx version >/dev/null 2>&1; then
        export DOCKER_BUILDKIT=1
    else
        export DOCKER_BUILDKIT=0
    fi
}

build() {
    local name=$1 log
    [[ -f runners/$name/Dockerfile ]] || die "there is no runners/$name/Dockerfile"
    log=.build/image-$name.log
    say "Building mcp-sandbox-$name"
    docker build --tag "mcp-sandbox-$name:latest" "runners/$name" >"$log" 2>&1 || {
        tail -n 40 "$log" >&2
        die "building mcp-sandbox-$name failed; all of it is in $log"
    }
}

main() {
    local names=("$@") file
    if [[ $# -eq 0 ]]; then
        for file in runners/*/Dockerfile; do names+=("$(basename "$(dirname "$file")")"); done
    fi
    docker version >/dev/null 2>&1 || die "no Docker engine answers. Run: scripts/install-docker.sh"
    mkdir -p .build
    choose_builder
    scripts/base-images.sh
    for name in "${names[@]}"; do build "$name"; done
}

main "$@"
