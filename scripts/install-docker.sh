#!/usr/bin/env bash
# Makes sure that a container engine answers, and that its client is there to build images.
#
# The engine is that of DOCKER_HOST (Podman's socket will do), else that of docker's context, which is Docker at its usual
# socket. Where none answers, Docker is installed and started on Debian and Ubuntu, by root only.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=scripts/progress.sh
. scripts/progress.sh

LOG=.build/dockerd.log
START_SECONDS=60

say() { printf '%s\n' "$*" >&2; }

die() {
    say "error: $*"
    exit 1
}

has() { command -v "$1" >/dev/null; }

answers() {
    local host=${DOCKER_HOST:-unix:///var/run/docker.sock}
    if has docker; then
        timeout 10 docker version >/dev/null 2>&1
    elif [[ $host == unix://* ]] && has curl; then
        curl -fsS -m 10 --unix-socket "${host#unix://}" http://engine/_ping >/dev/null 2>&1
    else
        return 1
    fi
}

# `-w` is also false when there is no socket.
is_forbidden() { [[ -z ${DOCKER_HOST:-} && -S /var/run/docker.sock && ! -w /var/run/docker.sock ]]; }

is_debian() {
    local ID="" ID_LIKE=""
    # shellcheck source=/dev/null
    if [[ -r /etc/os-release ]]; then . /etc/os-release; fi
    [[ " $ID $ID_LIKE " == *" debian "* ]]
}

explain_and_leave() {
    [[ -z ${DOCKER_HOST:-} ]] ||
        die "no engine answers at DOCKER_HOST=$DOCKER_HOST. Start it, or unset DOCKER_HOST to use Docker"
    ! is_forbidden || die "you may not talk to Docker. Run: sudo usermod -aG docker $(id -un), and log in again"
    is_debian || die "install Docker as your system does it (the package is called docker or docker-engine), start it, and try again"
    die "no container engine answers. Run: sudo $PWD/scripts/install-docker.sh"
}

# In newer releases the client is a package of its own.
client_package() {
    if apt-cache show docker-cli >/dev/null 2>&1; then echo docker-cli; else echo docker.io; fi
}

# Where the kernel has AppArmor, Docker starts no container without it, and Docker's package only recommends it.
apparmor_package() {
    if [[ $(cat /sys/module/apparmor/parameters/enabled 2>/dev/null) == Y ]]; then echo apparmor; fi
}

install_docker() {
    # shellcheck disable=SC2046 # none or one
    install_with_progress 40 ca-certificates curl docker.io $(apparmor_package)
    has docker || install_with_progress 40 "$(client_package)"
}

wait_until_it_answers() {
    local deadline=$((SECONDS + START_SECONDS))
    until answers; do
        if [[ -n ${1:-} ]] && ! kill -0 "$1" 2>/dev/null; then return 1; fi
        ((SECONDS < deadline)) || return 1
        sleep 0.3
    done
}

# In a session of its own and with nothing of ours open, so that it outlives this script and whoever called it.
run_in_background() {
    say "Starting Docker in the background; its log is $LOG"
    mkdir -p .build
    setsid dockerd </dev/null >>"$LOG" 2>&1 &
    wait_until_it_answers $!
}

start_docker() {
    if [[ -d /run/systemd/system ]]; then
        say "Starting Docker"
        systemctl enable --now docker >/dev/null 2>&1 || die "Docker does not start. See: journalctl -u docker"
        wait_until_it_answers || die "Docker does not answer. See: journalctl -u docker"
        return
    fi
    # After a crash the first start may fail because of what was left behind.
    run_in_background || run_in_background || {
        tail -n 20 "$LOG" >&2
        die "Docker does not start; all of it is in $LOG"
    }
}

need_engine() {
    ! answers || return 0
    if [[ $EUID -ne 0 || -n ${DOCKER_HOST:-} ]] || ! is_debian; then explain_and_leave; fi
    if ! has dockerd; then
        say "No container engine answers. You are root, so Docker is installed now (package docker.io)."
        install_docker
    fi
    answers || start_docker
}

need_client() {
    ! has docker || return 0
    if [[ $EUID -ne 0 ]] || ! is_debian; then
        die "the docker command is missing. Install it (on Debian: sudo apt-get install -y docker-cli)"
    fi
    install_with_progress 40 "$(client_package)"
}

need_engine
need_client
