#!/usr/bin/env bash
# From a fresh clone to a running server: Docker, runner images, the program, settings, firewall rules.
#
#   ./start.sh               all of it, then serves until Ctrl-C
#   ./start.sh --no-run      all of it but serving
#   ./start.sh --compose     serves from a container, by docker-compose.yml, and comes back; needs no Rust
#   ./start.sh --tunnel      the same behind a Cloudflare Tunnel, by docker-compose-cloudflare.yml
#   ./start.sh --token       prints the token
#
#   --build                  builds everything here instead of taking the release (docs/operating.md)
#   --yes                    answers every question with yes
#   --no-firewall            installs no firewall rules, and does not ask
#
# What is done already is not done again: a second start takes seconds. What .env sets stays as it is.
set -euo pipefail
cd "$(dirname "$0")"

# Cargo's own configuration may name another directory, which is not looked for here.
TARGET=${CARGO_TARGET_DIR:-target}
# Set where nothing is taken from a release.
BUILD=""
PROGRAM=$TARGET/release/mcp-code-sandbox
# On two cores, of which it uses as many as there are.
SERVER_SECONDS=$((480 / $(nproc) + 40))
YES="" FIREWALL=ask
# The setting of an address that somebody agreed to change.
CHANGED_ADDRESS=""
# shellcheck source=scripts/find-rust.sh
. scripts/find-rust.sh
# shellcheck source=scripts/progress.sh
. scripts/progress.sh
# shellcheck source=scripts/release-facts.sh
. scripts/release-facts.sh

say() { printf '%s\n' "$*" >&2; }

die() {
    say "error: $*"
    exit 1
}

usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' start.sh; }

need_packages() {
    local command=$1
    shift
    ! command -v "$command" >/dev/null || return 0
    if [[ $EUID -ne 0 ]] || ! command -v apt-get >/dev/null; then
        die "$command is missing. Install it (on Debian: sudo apt-get install -y $*)"
    fi
    install_with_progress 20 "$@"
}

# Whether somebody at a terminal agrees. Where nobody can be asked, only --yes does.
agrees() {
    local answer
    if [[ -n $YES ]]; then return 0; fi
    if [[ ! -t 0 || ! -t 2 ]]; then return 1; fi
    read -r -p "$* [Y/n] " answer || return 1
    [[ ! $answer =~ ^[Nn] ]]
}

# A setting from the environment, else from .env, where the last one counts. As the server reads it: with blanks
# around the name, after `export`, with quotes or a comment, and with the mark that some editors begin a file with.
setting() {
    local value=${!1:-}
    if [[ -z $value && -r .env ]]; then
        value=$(sed -nE $'1s/^\xef\xbb\xbf//; s/^[[:blank:]]*(export[[:blank:]]+)?'"$1"'[[:blank:]]*=[[:blank:]]*//p' .env |
            tail -n 1)
        case $value in
            \"*) value=${value#?} value=${value%%\"*} ;;
            \'*) value=${value#?} value=${value%%\'*} ;;
            '#'*) value="" ;;
            *) value=${value%%[[:space:]]*} ;;
        esac
    fi
    printf '%s' "$value"
}

random() { od -An -N32 -tx1 /dev/urandom | tr -d ' \n'; }

quoted() {
    if [[ $1 =~ ^[[:alnum:]/._-]+$ ]]; then printf '%s' "$1"; else printf "'%s'" "$1"; fi
}

write_settings() {
    local line
    if [[ -e .env ]]; then
        [[ -r .env && -w .env ]] || die ".env belongs to $(stat -c %U .env). Run this as that user, or:" \
            "sudo chown -R $(id -un) .env .build target sandboxes"
        # The server does not start without, and says so only when all is built.
        set_once MCP_API_TOKEN "$(random)"
        set_once FILE_SECRET "$(random)"
        return
    fi
    say "Writing .env with new secrets; all settings are explained in it"
    while IFS= read -r line; do
        case $line in
            MCP_API_TOKEN=*) line="MCP_API_TOKEN=$(random)" ;;
            FILE_SECRET=*) line="FILE_SECRET=$(random)" ;;
            '#SANDBOX_ROOT='*) line=SANDBOX_ROOT=$(quoted "$PWD/sandboxes") ;;
        esac
        printf '%s\n' "$line"
    done <.env.example | install -m 600 /dev/stdin .env.new
    mv .env.new .env
}

# Whether runs with `network: true` are wanted enough for rules on this host. Those that are there are only renewed.
wants_rules() {
    [[ $FIREWALL != no ]] || return 1
    scripts/firewall.sh check >/dev/null 2>&1 || [[ $ACTION != serve && -n $(running firewall-keeper) ]] ||
        agrees "Install firewall rules, which keep runs with network: true away from this host and private networks?" \
            "Without them such runs are refused. (scripts/firewall.sh remove takes them away.)"
}

install_rules() {
    local resolvers=$1
    if [[ $EUID -eq 0 ]] && wants_rules; then
        say "Installing firewall rules for runs with network: true"
        # shellcheck disable=SC2086 # several addresses
        scripts/firewall.sh install $resolvers && return
    fi
    say "note: network: true will be refused, since no firewall rules keep such runs away from this host; packages can be installed." \
        "To change it: sudo scripts/firewall.sh install $resolvers"
}

# Makes sure, before anything is built, that nobody listens where the setting $1, or else $2, has the server listen.
need_free_address() {
    local name=$1 address port host free
    address=$(setting "$name")
    address=${address:-$2}
    port=${address##*:}
    host=${address%"$port"}
    is_taken "$host" "$port" || return 0
    free=$port
    while is_taken "$host" "$free"; do free=$((free + 1)); done
    agrees "Another program, or this server, listens on port $port. Serve on $free, and keep that in .env?" ||
        die "another program, or this server, listens on port $port: stop it, or run: $name=$host$free $0 $OPTIONS"
    export "$name=$host$free"
    CHANGED_ADDRESS=$name
}

# Once there is an .env.
keep_address() {
    local name=$CHANGED_ADDRESS
    [[ -n $name ]] || return 0
    CHANGED_ADDRESS=""
    sed -i "/^$name=/d" .env
    end_last_line
    say "Adding $name to .env"
    printf '%s=%s\n' "$name" "${!name}" >>.env
}

# Whether something listens on a port of an address, written as the server takes it.
is_taken() {
    local host=${1%:}
    case $host in
        "" | 0.0.0.0 | localhost) host=127.0.0.1 ;;
        '[::]') host=::1 ;;
        \[*) host=${host:1:-1} ;;
    esac
    (: <>"/dev/tcp/$host/$2") 2>/dev/null
}

# Whoever called sudo keeps what was made in the clone. What conversations make there belongs to the server.
give_back() {
    local path
    [[ $EUID -eq 0 && ${SUDO_UID:-0} -ne 0 ]] || return 0
    for path in .env .build "$TARGET"; do
        [[ ! -e $path ]] || chown -R --no-dereference "$SUDO_UID:${SUDO_GID:-$SUDO_UID}" "$path"
    done
}

# One value of the configuration as the program understands it.
effective() { sed -n "s/^$1=//p" <<<"$CONFIGURATION"; }

# Where this machine reaches a server on an address: `localhost`, unless it is on one address that is not the loopback.
local_url() {
    local port=${1##*:}
    local host=${1%"$port"}
    case $host in
        "" | : | 127.0.0.1: | 0.0.0.0: | '[::]:' | '[::1]:') host=localhost: ;;
    esac
    printf 'http://%s%s' "$host" "$port"
}

greet() {
    local url=$1
    cat >&2 <<END

Page:     $(effective PUBLIC_BASE_URL)
MCP:      $(effective PUBLIC_BASE_URL)/mcp
Token:    $(setting MCP_API_TOKEN)

Claude Code, from this directory:
claude mcp add --transport http sandbox $url/mcp --header "Authorization: Bearer \$(./start.sh --token)"

Try it:
curl -s $url/mcp -H "Authorization: Bearer \$(./start.sh --token)" -H 'Content-Type: application/json' \\
  -d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_code","arguments":{"language":"python","code":"print(6*7)"}}}'

END
}

# Takes parts of the release of this version; fails where everything has to be built.
take_release() {
    local status=0
    [[ -z $BUILD ]] || return 1
    RELEASE_URL=$(setting RELEASE_URL) IMAGE_PREFIX=$(setting IMAGE_PREFIX) IMAGE_TAG=$(setting IMAGE_TAG) \
        scripts/fetch-release.sh "$@" || status=$?
    case $status in
        0) ;;
        3)
            BUILD=1
            say "Building everything instead, which takes about ten minutes on two cores when nothing was built before"
            return 1
            ;;
        *) exit "$status" ;;
    esac
}

# With anything in $1, nobody serves yet.
prepare() {
    [[ -n $1 ]] || need_free_address MCP_HTTP_ADDR 127.0.0.1:8080
    need_packages curl curl ca-certificates
    if take_release program; then
        PROGRAM=.build/release/$(version)/mcp-code-sandbox
    else
        find_rust
        need_packages cc gcc libc6-dev
    fi
    write_settings
    keep_address
    DOCKER_HOST=$(setting DOCKER_HOST)
    if [[ -n $DOCKER_HOST ]]; then export DOCKER_HOST; else unset DOCKER_HOST; fi
    scripts/install-docker.sh
    follow_context
    if [[ -n $BUILD ]]; then
        ./build.sh
        build_server
    else
        take_release runner
    fi
    mkdir -p .build
    ln -sfn "$(realpath "$PROGRAM")" .build/mcp-code-sandbox
    CONFIGURATION=$("$PROGRAM" check-config) || exit
    install_rules "$(effective RUN_DNS | tr ',' ' ')"
}

# Cargo counts what it builds only where it is told that somebody looks.
build_server() {
    CARGO_TERM_PROGRESS_WHEN=always CARGO_TERM_PROGRESS_WIDTH=100 \
        with_progress "Building the server" "$SERVER_SECONDS" .build/server.log \
        cargo build --release --locked --target-dir "$TARGET" || {
        tail -n 40 .build/server.log >&2
        die "building the server failed; all of it is in .build/server.log"
    }
}

# Docker's client goes where its context leads, as with Docker Desktop and without root, and of that the server knows
# nothing: without this the images would be in one engine and the server would ask another.
follow_context() {
    local host
    [[ -z ${DOCKER_HOST:-} ]] || return 0
    host=$(docker context inspect --format '{{.Endpoints.docker.Host}}' 2>/dev/null) || return 0
    case $host in
        "" | unix:///var/run/docker.sock) ;;
        unix://*) export DOCKER_HOST=$host ;;
        *) die "docker's context leads to $host. Set DOCKER_HOST in .env to an engine of this machine, or run:" \
            "docker context use default" ;;
    esac
}

compose() {
    if docker compose version >/dev/null 2>&1; then docker compose "$@"; else docker-compose "$@"; fi
}

# The container of a service, if it runs.
running() { compose ps --quiet "$1" 2>/dev/null || true; }

# A setting that .env has not, or has without a value.
set_once() {
    [[ -z $(setting "$1") ]] || return 0
    end_last_line
    say "Adding $1 to .env"
    printf '%s=%s\n' "$1" "$2" >>.env
}

# The last line may have no end, which what follows would continue.
end_last_line() {
    if [[ -n $(tail -c 1 .env) ]]; then echo >>.env; fi
}

# Where the server is published is written down, so that the next start, without the variable, finds it there again.
keep_published() {
    local given=${PUBLISH_ADDR:-} kept
    kept=$(PUBLISH_ADDR="" setting PUBLISH_ADDR)
    if [[ -n $given && -n $kept && $given != "$kept" ]]; then
        say "note: PUBLISH_ADDR is $given for this start only, since .env says $kept"
    elif [[ -z $given && -z $kept ]]; then
        # As an earlier start was told, whose variable nobody has any longer.
        given=$(published_before)
    fi
    [[ -z $given ]] || PUBLISH_ADDR="" set_once PUBLISH_ADDR "$given"
}

# Where the server of this clone is published now, or was when it was stopped, unless that is the default.
published_before() {
    local id
    command -v docker >/dev/null || return 0
    id=$(docker ps --all --quiet --latest --filter label=com.docker.compose.service=server \
        --filter "label=com.docker.compose.project.working_dir=$PWD" 2>/dev/null) || return 0
    [[ -n $id ]] || return 0
    docker inspect --format '{{range index .HostConfig.PortBindings "8080/tcp"}}{{.HostIp}}:{{.HostPort}}{{end}}' "$id" |
        sed -E '/^127\.0\.0\.1:8080$/d; s/^:([0-9]+)$/0.0.0.0:\1/; s/^(.*:.*):/[\1]:/'
}

# What nobody but the operator knows.
need_tunnel() {
    local name missing=()
    for name in TUNNEL_TOKEN PUBLIC_BASE_URL; do
        [[ -n $(setting "$name") ]] || missing+=("$name")
    done
    ((${#missing[@]} == 0)) || die "set ${missing[0]}${missing[1]:+ and ${missing[1]}} in .env and start again: see docs/operating.md, Cloudflare Tunnel"
}

serve_behind_tunnel() {
    write_settings
    need_tunnel
    export COMPOSE_FILE=docker-compose-cloudflare.yml
    start_containers
    greet "$(effective PUBLIC_BASE_URL)"
}

serve_in_container() {
    local published
    write_settings
    keep_published
    # A server that is there already is replaced.
    [[ -n $(running server) ]] || need_free_address PUBLISH_ADDR 127.0.0.1:8080
    keep_address
    published=$(setting PUBLISH_ADDR)
    # In its container the server does not know where it is published.
    [[ -z $published ]] || set_once PUBLIC_BASE_URL "$(local_url "$published")"
    # Who served behind a tunnel does not want that open any longer.
    start_containers --remove-orphans
    greet "$(local_url "${published:-127.0.0.1:8080}")"
}

# With the options of $@ for Compose.
start_containers() {
    local socket gid
    need_packages curl curl ca-certificates
    unset DOCKER_HOST
    scripts/install-docker.sh
    scripts/install-compose.sh
    socket=$(setting DOCKER_SOCKET)
    socket=${socket:-/var/run/docker.sock}
    gid=$(stat -L -c %g "$socket" 2>/dev/null) ||
        die "there is no engine at $socket: set DOCKER_SOCKET in .env to its socket"
    set_once DOCKER_GID "$gid"
    # As on another machine than that of the backup.
    [[ $(setting DOCKER_GID) == "$gid" ]] || say "note: DOCKER_GID is $(setting DOCKER_GID), and the group of" \
        "$socket is $gid. Where the server cannot reach the engine, change it in .env"
    set_once SANDBOX_ROOT "$(quoted "$PWD/sandboxes")"
    # Compose 1.29 takes BuildKit for granted.
    docker buildx version >/dev/null 2>&1 || export DOCKER_BUILDKIT=0 COMPOSE_DOCKER_CLI_BUILD=0
    take_release server runner || build_images
    say "Starting the server"
    # Bad settings would have the server end and be started again and again.
    CONFIGURATION=$(compose run --rm --no-deps -T server check-config) || exit
    # In Compose the rules are put there by services.
    wants_rules || set -- "$@" --scale firewall=0 --scale firewall-keeper=0
    compose up --detach "$@"
    wait_for_server
    # It has the first one, and takes up the others as they come.
    [[ -n $BUILD ]] || take_release runners
}

# All of them, the server's too.
build_images() {
    ./build.sh
    SOURCE_COMMIT=$(git rev-parse --short=12 HEAD 2>/dev/null || true)
    export SOURCE_COMMIT
    with_progress "Building the server" $((SERVER_SECONDS + 90)) .build/server.log compose build || {
        tail -n 40 .build/server.log >&2
        die "building the server failed; all of it is in .build/server.log"
    }
}

# One that cannot go on is started again and again, and says why in its log only.
wait_for_server() {
    for _ in {1..30}; do
        ! compose exec -T server mcp-code-sandbox healthcheck >/dev/null 2>&1 || return 0
        sleep 1
    done
    compose logs --tail 20 server >&2
    die "the server does not start: its log is above"
}

OPTIONS=$*
ACTION=serve
while (($#)); do
    case $1 in
        --no-run | --compose | --tunnel | --token) ACTION=${1#--} ;;
        --build) BUILD=1 ;;
        --yes) YES=yes ;;
        --no-firewall) FIREWALL=no ;;
        -h | --help)
            usage
            exit
            ;;
        *)
            usage >&2
            exit 2
            ;;
    esac
    shift
done
trap give_back EXIT
case $ACTION in
    serve)
        prepare ""
        # Since it was looked for, minutes may have gone by.
        need_free_address MCP_HTTP_ADDR 127.0.0.1:8080
        keep_address
        CONFIGURATION=$("$PROGRAM" check-config)
        greet "$(local_url "$(effective MCP_HTTP_ADDR)")"
        # Beside the server, which has the first image and takes up the others as they come. It is no child of it.
        [[ -n $BUILD ]] || (take_release runners &)
        give_back
        exec "$PROGRAM"
        ;;
    no-run)
        prepare "$ACTION"
        [[ -n $BUILD ]] || take_release runners
        say "Ready to serve: $PROGRAM"
        ;;
    compose) serve_in_container ;;
    tunnel) serve_behind_tunnel ;;
    token)
        [[ -n $(setting MCP_API_TOKEN) ]] || die "there is no token yet: ./start.sh makes one"
        printf '%s\n' "$(setting MCP_API_TOKEN)"
        ;;
esac
