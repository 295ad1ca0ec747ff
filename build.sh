#!/usr/bin/env bash
# Builds the runner images: every runners/<name>/Dockerfile becomes mcp-sandbox-<name>:latest.
#
#   ./build.sh                 python, shell and typescript
#   ./build.sh python r go     only these; runners/ has a folder for each language there is
#   ./build.sh --slim          without the fonts, locales and libraries that most programs do without
#   ./build.sh --fresh         with today's base image and Debian packages, and without the layer cache
#
# Honours DOCKER_HOST, and docker's context without it. If nothing changed, nothing is built: the layer cache answers in
# seconds. So security updates of Debian arrive by --fresh only.
set -euo pipefail
cd "$(dirname "$0")"

USUAL=(python shell typescript)
VARIANT=full

# Seconds that the larger images take on two cores, with all that they download.
declare -A TAKES=([python]=120 [typescript]=60 [shell]=40 [workbench]=120)
# shellcheck source=scripts/progress.sh
. scripts/progress.sh

say() { printf '%s\n' "$*" >&2; }

die() {
    say "error: $*"
    exit 1
}

usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' build.sh; }

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
    with_progress "Building mcp-sandbox-$name" "${TAKES[$name]:-60}" "$log" \
        docker build ${FRESH:+--no-cache} --build-arg "variant=$VARIANT" --tag "mcp-sandbox-$name:latest" \
        --file "runners/$name/Dockerfile" runners || {
        tail -n 40 "$log" >&2
        die "building mcp-sandbox-$name failed; all of it is in $log"
    }
}

main() {
    local names=()
    while (($#)); do
        case $1 in
            --fresh) export FRESH=1 ;;
            --slim) VARIANT=slim ;;
            -h | --help)
                usage
                return
                ;;
            -*)
                usage >&2
                exit 2
                ;;
            *) names+=("$1") ;;
        esac
        shift
    done
    ((${#names[@]})) || names=("${USUAL[@]}")
    docker version >/dev/null 2>&1 || die "no Docker engine answers. Run: scripts/install-docker.sh"
    mkdir -p .build
    choose_builder
    scripts/base-images.sh
    for name in "${names[@]}"; do
        # It is made of the usual ones.
        [[ $name != workbench ]] || for usual in "${USUAL[@]}"; do build "$usual"; done
        build "$name"
    done
}

main "$@"
