#!/usr/bin/env bash
# start.sh with programs that stand in for Docker and everything else that takes long: what it writes, says and passes
# on. Needs nothing. One line per check, at the end a count.
set -euo pipefail
cd "$(dirname "$0")/../.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck source=tests/check.sh
. tests/check.sh

# Makes a program $1 of the lines on standard input.
stand_in() {
    mkdir -p "$(dirname "$1")"
    {
        echo '#!/usr/bin/env bash'
        cat
    } >"$1"
    chmod +x "$1"
}

# Makes a directory as after a clone, with $1 as its .env: what Docker is asked for goes into its file `asked`.
make_clone() {
    clone=$(mktemp -d -p "$work")
    cp start.sh .env.example Cargo.toml "$clone"
    mkdir "$clone/scripts"
    cp scripts/{find-rust,install-compose,progress,release-facts}.sh "$clone/scripts"
    printf '%s' "$1" >"$clone/.env"
    touch "$clone/socket"
    for program in scripts/install-docker.sh build.sh bin/cargo bin/cc bin/curl bin/sleep; do
        stand_in "$clone/$program" </dev/null
    done
    # Its rules are never there.
    stand_in "$clone/scripts/firewall.sh" <<'END'
echo "$*" >>rules
[[ $1 != check ]]
END
    # There is none.
    stand_in "$clone/scripts/fetch-release.sh" <<<'echo "$*" >>fetched; exit 3'
    stand_in "$clone/bin/rustc" <<'END'
echo "rustc $(cat rust 2>/dev/null || echo 1.100.0) (0123456 2026-01-01)"
END
    stand_in "$clone/bin/docker" <<'END'
echo "$*" >>asked
case $* in
    *check-config*) echo PUBLIC_BASE_URL=http://localhost:8080 ;;
    *healthcheck*) [[ ! -e broken ]] ;;
    *"logs --tail 20 server"*) echo "SANDBOX_ROOT is not usable" ;;
    "ps "*) [[ ! -e published ]] || echo 0123456789ab ;;
    "inspect "*0123456789ab) cat published ;;
    "context inspect"*) cat context 2>/dev/null || echo unix:///var/run/docker.sock ;;
esac
END
    stand_in "$clone/target/release/mcp-code-sandbox" <<'END'
case ${1:-} in
    check-config) printf '%s\n' "MCP_HTTP_ADDR=${MCP_HTTP_ADDR:-127.0.0.1:8080}" PUBLIC_BASE_URL=http://localhost:8080 ;;
    *) echo "serves from ${DOCKER_HOST:-the usual socket}" ;;
esac
END
}

settings=()
start_bare() { (cd "$clone" && env -i PATH="$clone/bin:$PATH" HOME="$clone" "${settings[@]}" ./start.sh "$@"); }

# With secrets in the environment, so that .env needs none.
start() {
    local settings=(MCP_API_TOKEN=aaa FILE_SECRET=bbb)
    start_bare "$@"
}

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

secrets_that_are_missing_are_made() {
    make_clone $'MCP_API_TOKEN=\nDOCKER_SOCKET=socket\nFILE_SECRET=bbb'
    start_bare 2>"$clone/said"
    grep -qx 'Adding MCP_API_TOKEN to .env' "$clone/said"
    if grep -q 'Adding FILE_SECRET' "$clone/said"; then return 1; fi
    sed -i -E 's/^(MCP_API_TOKEN)=[0-9a-f]{64}$/\1=64 digits/' "$clone/.env"
    diff "$clone/.env" - <<'END'
MCP_API_TOKEN=
DOCKER_SOCKET=socket
FILE_SECRET=bbb
MCP_API_TOKEN=64 digits
END
}

# Another FILE_SECRET would hide all existing files.
however_it_is_written_a_setting_is_one() {
    make_clone $'\xef\xbb\xbfMCP_API_TOKEN = "aaa" # mine\r\n  export FILE_SECRET=\'bbb\'\nexport  SANDBOX_ROOT=/srv/files # here\nDOCKER_GID=998\nDOCKER_SOCKET=socket\n'
    cp "$clone/.env" "$clone/before"
    start_bare --compose 2>"$clone/said"
    diff "$clone/before" "$clone/.env"
    grep -qx 'Token:    aaa' "$clone/said"
}

what_is_set_is_not_set_again() {
    make_clone $'SANDBOX_ROOT=/srv/files\nDOCKER_GID=998\nDOCKER_SOCKET=socket\n'
    cp "$clone/.env" "$clone/before"
    start --compose
    diff "$clone/before" "$clone/.env"
}

a_server_that_does_not_start_is_told() {
    make_clone "SANDBOX_ROOT=/srv/files
DOCKER_GID=$(id -g)
DOCKER_SOCKET=socket
"
    touch "$clone/broken"
    if start --compose 2>"$clone/said"; then return 1; fi
    diff "$clone/said" - <<'END'
Building everything instead, which takes about ten minutes on two cores when nothing was built before
Building the server
Starting the server
SANDBOX_ROOT is not usable
error: the server does not start: its log is above
END
}

a_socket_that_is_not_there_is_told() {
    make_clone $'SANDBOX_ROOT=/srv/files\nDOCKER_SOCKET=nowhere/engine.sock\n'
    cp "$clone/.env" "$clone/before"
    if start --compose 2>"$clone/said"; then return 1; fi
    diff "$clone/said" - <<'END'
error: there is no engine at nowhere/engine.sock: set DOCKER_SOCKET in .env to its socket
END
    diff "$clone/before" "$clone/.env"
}

another_group_of_the_engine_is_told() {
    make_clone $'SANDBOX_ROOT=/srv/files\nDOCKER_GID=54321\nDOCKER_SOCKET=socket\n'
    start --compose 2>"$clone/said"
    grep -x "note: DOCKER_GID is 54321, and the group of socket is $(stat -c %g "$clone/socket"). .*" "$clone/said"
}

an_old_compiler_is_told_before_anything_is_made() {
    make_clone ''
    echo 1.85.0 >"$clone/rust"
    if start --build 2>"$clone/said"; then return 1; fi
    diff "$clone/said" - <<END
error: Rust is 1.85.0 and must be $(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml) or newer. Get it by: rustup update stable (https://rustup.rs)
END
}

# $1 is the only package that apt knows of, and $2 the one that must be installed.
compose_is_installed() {
    make_clone $'SANDBOX_ROOT=/srv/files\nDOCKER_GID=998\nDOCKER_SOCKET=socket\n'
    mv "$clone/bin/docker" "$clone/bin/docker-there"
    stand_in "$clone/bin/docker" <<'END'
case $* in
    "compose "*) [[ -e plugin ]] || exit 1 ;;
esac
exec docker-there "$@"
END
    # As where Python is too new for it.
    stand_in "$clone/bin/docker-compose" <<<'exit 1'
    stand_in "$clone/bin/apt-cache" <<<"[[ \$2 == '$1' ]]"
    stand_in "$clone/bin/apt-get" <<<'echo "$*" >>installed; touch plugin'
    start --compose
    grep -o 'docker-compose.*' "$clone/installed" | diff - <(echo "$2")
}

compose_is_the_plugin_where_there_is_one() {
    compose_is_installed docker-compose-v2 docker-compose-v2
    compose_is_installed nothing docker-compose
}

# The group of the engine's socket, and not that of a link to it.
links_to_the_socket_are_followed() {
    make_clone $'SANDBOX_ROOT=/srv/files\nDOCKER_SOCKET=link\n'
    ln -s socket "$clone/link"
    # Another group than that of the link: any for root, else one of our own.
    chgrp 12345 "$clone/socket" 2>/dev/null || chgrp "$(id -G | tr ' ' '\n' | tail -n 1)" "$clone/socket"
    start --compose
    grep -qx "DOCKER_GID=$(stat -c %g "$clone/socket")" "$clone/.env"
}

# The images are made on the engine that docker's own client leads to.
served_from() {
    [[ $(start 2>"$clone/said") == "serves from $1" ]]
}

the_engine_is_that_of_the_context() {
    make_clone ''
    served_from "the usual socket"
    echo unix:///run/user/1000/docker.sock >"$clone/context"
    served_from unix:///run/user/1000/docker.sock
    echo DOCKER_HOST=unix:///run/podman/podman.sock >"$clone/.env"
    served_from unix:///run/podman/podman.sock
    echo ssh://me@box >"$clone/context"
    served_from unix:///run/podman/podman.sock
    : >"$clone/.env"
    if start 2>"$clone/said"; then return 1; fi
    diff "$clone/said" - <<'END'
Building everything instead, which takes about ten minutes on two cores when nothing was built before
error: docker's context leads to ssh://me@box. Set DOCKER_HOST in .env to an engine of this machine, or run: docker context use default
END
}

# The example in the greeting calls $2, with $1 set.
said_to_call() {
    local settings=(MCP_API_TOKEN=aaa FILE_SECRET=bbb "$1")
    start_bare "${@:3}" 2>"$clone/said"
    grep -q "^curl -s http://$2/mcp " "$clone/said"
}

the_greeting_calls_where_the_server_listens() {
    make_clone $'SANDBOX_ROOT=/srv/files\nDOCKER_GID=998\nDOCKER_SOCKET=socket\n'
    said_to_call MCP_HTTP_ADDR=0.0.0.0:9300 localhost:9300
    said_to_call 'MCP_HTTP_ADDR=[::1]:9300' localhost:9300
    said_to_call MCP_HTTP_ADDR=172.17.0.1:8080 172.17.0.1:8080
    said_to_call PUBLISH_ADDR=172.17.0.1:8080 172.17.0.1:8080 --compose
    said_to_call PUBLISH_ADDR=9000 localhost:9000 --compose
    make_clone $'SANDBOX_ROOT=/srv/files\nDOCKER_GID=998\nDOCKER_SOCKET=socket\n'
    said_to_call PUBLISH_ADDR= localhost:8080 --compose
}

links_lead_where_the_server_is_published() {
    make_clone $'SANDBOX_ROOT=/srv/files\nDOCKER_GID=998\nDOCKER_SOCKET=socket\nPUBLISH_ADDR=127.0.0.1:9000\n'
    start --compose
    grep -qx PUBLIC_BASE_URL=http://localhost:9000 "$clone/.env"
}

# $1 is what .env says of it in the end, after a start that was told $2 and one that was not.
stays_published() {
    local settings=(MCP_API_TOKEN=aaa FILE_SECRET=bbb)
    PUBLISH_ADDR=$2 start_with_address
    start_with_address
    sed -n 's/^PUBLISH_ADDR=//p' "$clone/.env" | diff - <(printf '%s' "${1:+$1$'\n'}")
    grep -q "^curl -s http://localhost:${1##*:}/mcp " "$clone/said"
}

start_with_address() { settings+=("PUBLISH_ADDR=${PUBLISH_ADDR:-}"); start_bare --compose 2>"$clone/said"; }

where_it_is_published_outlives_an_upgrade() {
    local rest=$'SANDBOX_ROOT=/srv/files\nDOCKER_GID=998\nDOCKER_SOCKET=socket\n'
    make_clone "$rest"
    stays_published 127.0.0.1:9000 127.0.0.1:9000
    make_clone "$rest"PUBLISH_ADDR=127.0.0.1:9000
    stays_published 127.0.0.1:9000 127.0.0.1:9100
    # As an earlier start without this left it, running or stopped.
    local before
    for before in 127.0.0.1:9000 0.0.0.0:9000; do
        make_clone "$rest"
        echo "$before" >"$clone/published"
        stays_published "$before" ""
    done
    make_clone "$rest"
    echo ::1:9000 >"$clone/published"
    stays_published "[::1]:9000" ""
    make_clone "$rest"
    echo :9000 >"$clone/published"
    stays_published 0.0.0.0:9000 ""
    make_clone "$rest"
    echo 127.0.0.1:8080 >"$clone/published"
    start_with_address
    if grep PUBLISH_ADDR "$clone/.env"; then return 1; fi
}

what_is_only_made_is_not_announced() {
    make_clone $'SANDBOX_ROOT=/srv/files\n'
    start --no-run 2>"$clone/said"
    [[ $(tail -n 1 "$clone/said") == "Ready to serve: target/release/mcp-code-sandbox" ]]
    if grep 'Try it' "$clone/said"; then return 1; fi
}

help_is_there_from_everywhere() {
    make_clone ''
    (cd / && "$clone/start.sh" --help) | grep -q '^  *./start.sh --tunnel'
}

settings_of_the_tunnel_are_asked_for() {
    make_clone ''
    if start --tunnel 2>"$clone/said"; then return 1; fi
    grep -x 'error: set TUNNEL_TOKEN and PUBLIC_BASE_URL in .env .*' "$clone/said"
}

# In the same project of Compose, whose other services stay otherwise.
a_tunnel_ends_where_the_server_is_published_instead() {
    make_clone $'SANDBOX_ROOT=/srv/files\nDOCKER_GID=998\nDOCKER_SOCKET=socket\nTUNNEL_TOKEN=t\nPUBLIC_BASE_URL=https://a.example\n'
    start --tunnel
    start --compose
    grep '^compose up' "$clone/asked" | sed 's/ --scale.*//' |
        diff - <(printf '%s\n' "compose up --detach" "compose up --detach --remove-orphans")
}

# A program that listens on a port of its own, $taken, until the check ends.
occupy() {
    python3 -c 'import socket, time
listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
time.sleep(60)' >"$clone/port" &
    # shellcheck disable=SC2064 # this very process
    trap "kill $!" EXIT
    until [[ -s $clone/port ]]; do sleep 0.05; done
    taken=$(<"$clone/port")
}

a_port_that_is_taken_is_told_before_anything_is_built() {
    make_clone ''
    occupy
    settings=(MCP_API_TOKEN=aaa FILE_SECRET=bbb "MCP_HTTP_ADDR=127.0.0.1:$taken")
    if start_bare 2>"$clone/said"; then return 1; fi
    sed -E "s/$taken/TAKEN/; s/:[0-9]+ /:FREE /" "$clone/said" | diff - <(
        echo "error: another program, or this server, listens on port TAKEN: stop it, or run: MCP_HTTP_ADDR=127.0.0.1:FREE ./start.sh "
    )
}

a_free_port_is_taken_and_kept_when_somebody_agrees() {
    local settings=(MCP_API_TOKEN=aaa FILE_SECRET=bbb)
    make_clone ''
    occupy
    printf 'MCP_HTTP_ADDR=127.0.0.1:%s' "$taken" >"$clone/.env"
    start_bare --yes 2>"$clone/said"
    grep -qx 'MCP_HTTP_ADDR=127.0.0.1:[0-9]*' "$clone/.env"
    if grep -q "$taken" "$clone/.env"; then return 1; fi
    grep -q "^curl -s http://localhost:$(sed 's/.*://' "$clone/.env")/mcp " "$clone/said"
    # And a published one.
    printf 'PUBLISH_ADDR=127.0.0.1:%s\nSANDBOX_ROOT=/srv/files\nDOCKER_GID=998\nDOCKER_SOCKET=socket\n' "$taken" >"$clone/.env"
    start_bare --compose --yes 2>"$clone/said"
    if grep -q "PUBLISH_ADDR=127.0.0.1:$taken$" "$clone/.env"; then return 1; fi
}

# At a terminal, on which somebody types $1.
start_at_a_terminal() {
    (cd "$clone" && script -qec "env -i PATH='$clone/bin:$PATH' HOME='$clone' MCP_API_TOKEN=aaa FILE_SECRET=bbb ./start.sh ${*:2}" said <<<"$1" >/dev/null)
}

rules_are_installed() { grep -q '^install' "$clone/rules"; }

rules_of_the_firewall_are_asked_for() {
    make_clone ''
    start 2>"$clone/said"
    if rules_are_installed; then return 1; fi
    grep -q '^note: network: true will be refused' "$clone/said"
    start_at_a_terminal n
    grep -q 'Install firewall rules' "$clone/said"
    if rules_are_installed; then return 1; fi
    start_at_a_terminal y --no-firewall
    if rules_are_installed || grep -q 'Install firewall rules' "$clone/said"; then return 1; fi
    start_at_a_terminal y
    rules_are_installed
    make_clone ''
    start --yes
    rules_are_installed
}

# Those that are there are renewed.
rules_that_are_there_are_not_asked_for() {
    make_clone ''
    stand_in "$clone/scripts/firewall.sh" <<<'echo "$*" >>rules'
    start
    rules_are_installed
}

rules_in_compose_are_asked_for_too() {
    make_clone $'SANDBOX_ROOT=/srv/files\nDOCKER_GID=998\nDOCKER_SOCKET=socket\n'
    start --compose
    start --compose --yes
    grep '^compose up' "$clone/asked" | diff - <(
        printf '%s\n' "compose up --detach --remove-orphans --scale firewall=0 --scale firewall-keeper=0" "compose up --detach --remove-orphans"
    )
}

the_token_can_be_had() {
    make_clone ''
    if start_bare --token 2>"$clone/said"; then return 1; fi
    grep -qx 'error: there is no token yet: ./start.sh makes one' "$clone/said"
    echo "MCP_API_TOKEN='aaa'" >"$clone/.env"
    [[ $(start_bare --token) == aaa ]]
    start_bare --no-run
    # Which the commands that are printed do without.
    start_bare 2>"$clone/said"
    if grep -E '^(curl|claude|  -d).*aaa' "$clone/said"; then return 1; fi
    grep -qx "claude mcp add --transport http sandbox http://localhost:8080/mcp --header \"Authorization: Bearer \$(./start.sh --token)\"" "$clone/said"
}

files_belong_to_whoever_called_sudo() {
    make_clone ''
    rm "$clone/.env"
    settings=(SUDO_UID=4711 SUDO_GID=4712)
    start_bare
    [[ $(stat -c %u:%g "$clone/.env" "$clone/.build" "$clone/target/release" | sort -u) == 4711:4712 ]]
}

# $1 is a line that a builder prints, and $2 what is said of it.
step_is_told() {
    echo "$1" >"$work/line"
    SHELL=$BASH script -qec ". scripts/progress.sh; with_progress Making 100 $work/log sh -c 'cat $work/line; sleep 2'" /dev/null |
        grep "[0-9] s of about 2 min, step $2"
}

long_commands_say_how_far_they_are() {
    step_is_told "Step 2/9 : RUN" "2 of 9"
    step_is_told '#8 [build-1 3/7] COPY' "3 of 7"
    step_is_told 'Building [==> ] 12/340: serde' "12 of 340"
    # Whoever waits for all output does not wait for more than the command.
    [[ $( (. scripts/progress.sh && with_progress Making 100 "$work/log" false || echo failed) 2>&1) == $'Making\nfailed' ]]
}

# Makes a clone whose release has all that is asked for, and where nothing can be built.
make_released_clone() {
    local version program
    version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
    make_clone "$1"
    program=$clone/.build/release/$version/mcp-code-sandbox
    stand_in "$clone/scripts/fetch-release.sh" <<<'echo "$*" >>fetched'
    mkdir -p "$(dirname "$program")"
    mv "$clone/target/release/mcp-code-sandbox" "$program"
    for program in build.sh bin/cargo bin/cc bin/rustc; do stand_in "$clone/$program" <<<'touch built; exit 1'; done
}

a_release_is_taken_in_place_of_a_build() {
    make_released_clone ''
    served_from "the usual socket"
    # The others come beside the server, which is there already.
    for _ in {1..100}; do
        ! grep -qx runners "$clone/fetched" || break
        sleep 0.1
    done
    diff "$clone/fetched" <(printf '%s\n' program runner runners)
    [[ ! -e $clone/built ]]
    "$clone/.build/mcp-code-sandbox" check-config | grep -q PUBLIC_BASE_URL
}

a_release_is_served_from_a_container() {
    make_released_clone $'SANDBOX_ROOT=/srv/files\nDOCKER_GID=998\nDOCKER_SOCKET=socket\n'
    start --compose
    diff "$clone/fetched" <(printf '%s\n' "server runner" runners)
    [[ ! -e $clone/built ]]
    if grep -x 'compose build.*' "$clone/asked"; then return 1; fi
}

a_build_that_is_asked_for_takes_no_release() {
    make_clone ''
    [[ $(start --build 2>"$clone/said") == "serves from the usual socket" ]]
    [[ ! -e $clone/fetched ]]
    if grep 'instead' "$clone/said"; then return 1; fi
}

a_release_that_is_wrong_ends_it() {
    make_released_clone ''
    stand_in "$clone/scripts/fetch-release.sh" <<<"[[ \$1 == program ]]"
    if start 2>"$clone/said"; then return 1; fi
    [[ ! -e $clone/built ]]
    if grep 'Try it' "$clone/said"; then return 1; fi
}

check "a last line of .env without an end stays whole" a_last_line_without_an_end_stays_whole
check "secrets that .env lacks are made" secrets_that_are_missing_are_made
check "however it is written, a setting is one" however_it_is_written_a_setting_is_one
check "what .env sets is not set again" what_is_set_is_not_set_again
check "a server that does not start is told, with its log" a_server_that_does_not_start_is_told
check "a socket that is not there is told" a_socket_that_is_not_there_is_told
check "another group of the engine is told" another_group_of_the_engine_is_told
check "an old compiler is told before anything is made" an_old_compiler_is_told_before_anything_is_made
# Only root installs anything.
if ((EUID == 0)); then
    check "Compose is the plugin, where there is one" compose_is_the_plugin_where_there_is_one
fi
check "links to the socket are followed" links_to_the_socket_are_followed
check "the greeting calls where the server listens" the_greeting_calls_where_the_server_listens
check "links lead where the server is published" links_lead_where_the_server_is_published
check "where it is published outlives an upgrade" where_it_is_published_outlives_an_upgrade
check "what is only made is not announced" what_is_only_made_is_not_announced
check "help is there from everywhere" help_is_there_from_everywhere
check "settings of the tunnel are asked for" settings_of_the_tunnel_are_asked_for
check "a tunnel ends where the server is published instead" a_tunnel_ends_where_the_server_is_published_instead
check "a release is taken in place of a build" a_release_is_taken_in_place_of_a_build
check "a release is served from a container" a_release_is_served_from_a_container
check "a build that is asked for takes no release" a_build_that_is_asked_for_takes_no_release
check "a release that is wrong ends it" a_release_that_is_wrong_ends_it
check "the server has the engine of docker's context" the_engine_is_that_of_the_context
check "a port that is taken is told before anything is built" a_port_that_is_taken_is_told_before_anything_is_built
check "a free port is taken and kept when somebody agrees" a_free_port_is_taken_and_kept_when_somebody_agrees
if ((EUID == 0)); then
    check "rules of the firewall are asked for" rules_of_the_firewall_are_asked_for
    check "rules that are there are not asked for" rules_that_are_there_are_not_asked_for
    check "files belong to whoever called sudo" files_belong_to_whoever_called_sudo
fi
check "rules in Compose are asked for too" rules_in_compose_are_asked_for_too
check "the token can be had, and is in no command" the_token_can_be_had
check "long commands say how far they are" long_commands_say_how_far_they_are
echo "$passed passed, $failed failed"
((failed == 0))
