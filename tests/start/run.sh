#!/usr/bin/env bash
# start.sh with programs that stand for Docker and all else that takes long: what it writes, says and hands on. Needs
# nothing. One line per check, at the end a count.
set -euo pipefail
cd "$(dirname "$0")/../.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck source=tests/check.sh
. tests/check.sh

# $1 is a program whose lines are on standard input.
stand_in() {
    mkdir -p "$(dirname "$1")"
    {
        echo '#!/usr/bin/env bash'
        cat
    } >"$1"
    chmod +x "$1"
}

# A directory as after a clone, with $1 as its .env: what is asked of Docker is in its file `asked`.
make_clone() {
    clone=$(mktemp -d -p "$work")
    cp start.sh .env.example "$clone"
    printf '%s' "$1" >"$clone/.env"
    touch "$clone/socket"
    for program in scripts/install-docker.sh scripts/firewall.sh build.sh bin/cargo bin/cc bin/curl bin/sleep; do
        stand_in "$clone/$program" </dev/null
    done
    stand_in "$clone/bin/docker" <<'END'
echo "$*" >>asked
case $* in
    *check-config*) echo PUBLIC_BASE_URL=http://localhost:8080 ;;
    *healthcheck*) [[ ! -e broken ]] ;;
    *"logs --tail 20 server"*) echo "SANDBOX_ROOT is not usable" ;;
esac
END
}

start() { (cd "$clone" && env -i PATH="$clone/bin:$PATH" HOME="$clone" ./start.sh "$@"); }

a_last_line_without_an_end_stays_whole() {
    make_clone $'MCP_API_TOKEN=aaa\nDOCKER_SOCKET=socket\nFILE_SECRET=bbb'
    start --compose
    diff "$clone/.env" - <<END
MCP_API_TOKEN=aaa
DOCKER_SOCKET=socket
FILE_SECRET=bbb
DOCKER_GID=$(stat -c %g "$clone/socket")
SANDBOX_ROOT=$clone/sandboxes
END
}

what_is_set_is_not_set_again() {
    make_clone $'SANDBOX_ROOT=/srv/files\nDOCKER_GID=998\nDOCKER_SOCKET=socket\n'
    cp "$clone/.env" "$clone/before"
    start --compose
    diff "$clone/before" "$clone/.env"
}

a_server_that_does_not_start_is_told() {
    make_clone $'SANDBOX_ROOT=/srv/files\nDOCKER_GID=998\nDOCKER_SOCKET=socket\n'
    touch "$clone/broken"
    if start --compose 2>"$clone/said"; then return 1; fi
    diff "$clone/said" - <<'END'
Building and starting the server
SANDBOX_ROOT is not usable
error: the server does not start: its log is above
END
}

check "a last line of .env without an end stays whole" a_last_line_without_an_end_stays_whole
check "what .env sets is not set again" what_is_set_is_not_set_again
check "a server that does not start is told, with its log" a_server_that_does_not_start_is_told
echo "$passed passed, $failed failed"
((failed == 0))
