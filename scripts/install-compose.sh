#!/usr/bin/env bash
# Makes sure that Docker Compose runs: as Docker's own plugin, or as a program of its own, docker-compose.
#
# Where there is neither, it is installed on Debian and Ubuntu, by root only. Ubuntu has the plugin in a package of its
# own, and also a docker-compose that its Python cannot run.
set -euo pipefail

die() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

runs() { docker compose version >/dev/null 2>&1 || docker-compose version >/dev/null 2>&1; }

main() {
    local package=docker-compose
    ! runs || return 0
    if apt-cache show docker-compose-v2 >/dev/null 2>&1; then package=docker-compose-v2; fi
    if [[ $EUID -ne 0 ]] || ! command -v apt-get >/dev/null; then
        die "Docker Compose is missing. Install it (on Debian and Ubuntu: sudo apt-get install -y $package)"
    fi
    printf 'Installing %s\n' "$package" >&2
    {
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package"
    } </dev/null >/dev/null
    runs || die "Docker Compose does not run. Install its plugin, docker-compose-v2 or docker-compose-plugin"
}

main
