#!/usr/bin/env bash
# docker-compose.yml for real, with and without the filter in front of the engine's socket: builds the server's image,
# starts it, uploads, runs and downloads through the published port with sandboxes beside it, and stops it.
# In docker-compose-cloudflare.yml a container that does nothing stands in for the tunnel's client. With files in a
# volume it is an engine of the test's own that does all of it. Needs Docker with Compose, the runner images, curl and
# jq. One line per check, at the end a count.
#
# The program has to be built by cargo first, so that nothing is compiled in a container; COMPILE=1 compiles there
# anyway.
set -euo pipefail
cd "$(dirname "$0")/../.."

say() { printf '%s\n' "$*" >&2; }

die() {
    say "error: $*"
    exit 2
}

work=$(mktemp -d)
PROJECT=mcp-compose-test-$$
# The images have names of their own.
export IMAGE_PREFIX=test/ IMAGE_TAG=test-$$ SERVER_BINARY=""
SERVER_IMAGE=${IMAGE_PREFIX}mcp-code-sandbox:$IMAGE_TAG
port=${COMPOSE_TEST_PORT:-$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')}
token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
url=http://localhost:$port

if docker compose version >/dev/null 2>&1; then
    COMPOSE=(docker compose)
elif command -v docker-compose >/dev/null; then
    COMPOSE=(docker-compose)
else
    die "Docker Compose is missing. Run: sudo apt-get install -y docker-compose"
fi
# Without BuildKit where the client has none; Compose 1.29 does not ask.
if ! docker buildx version >/dev/null 2>&1; then export DOCKER_BUILDKIT=0 COMPOSE_DOCKER_CLI_BUILD=0; fi

FILES=(--file docker-compose.yml)
BUILD=(--build)
# In which it runs a program, and one that adds the numbers of in.txt.
LANGUAGE=python PROGRAM='print(sum(map(int, open("in.txt").read().split())), file=open("out.txt", "a"))'
# Where programs of in_volume see the directory of all files, when it is a volume.
IN_VOLUME=""

compose() { "${COMPOSE[@]}" --project-name "$PROJECT" --env-file "$work/.env" "${FILES[@]}" "$@"; }

# The resolvers of the firewall's rules, in one line; fails when there are none.
rules() { iptables -w -S MCP-SANDBOX 2>/dev/null | sed -n 's|^-A MCP-SANDBOX -d \(.*\)/32 -p udp .*|\1|p' | tr '\n' ' '; }

# The firewall's services leave their rules on the host.
had_rules="" resolvers=""
if resolvers=$(rules); then had_rules=1; fi

restore_firewall() {
    # shellcheck disable=SC2086 # a word for each resolver
    if [[ $had_rules ]]; then scripts/firewall.sh install $resolvers; else scripts/firewall.sh remove; fi
}

images() { docker images --format '{{.Repository}}:{{.Tag}}' --filter "reference=$IMAGE_PREFIX*:$IMAGE_TAG"; }

# The server's files belong to another user by now, so a container has to delete them.
clean_up() {
    leave_engine >>"$work/log" 2>&1 || cat "$work/log" >&2
    FILES=(--file docker-compose.yml)
    compose down --volumes --timeout 30 >>"$work/log" 2>&1 || cat "$work/log" >&2
    restore_firewall >>"$work/log" 2>&1 || cat "$work/log" >&2
    docker run --rm --network none --user 0:0 --entrypoint sh --volume "$work:/work" "$SERVER_IMAGE" \
        -c 'rm -rf /work/data' >/dev/null 2>&1 || true
    images | xargs --no-run-if-empty docker rmi >/dev/null || true
    rm -rf "$work" .build/image
}
trap clean_up EXIT

# Where the server is published, and the group of the engine's socket.
write_settings() {
    cat >"$work/.env" <<END
MCP_API_TOKEN=$token
METRICS_TOKEN=$token
FILE_SECRET=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
DOCKER_GID=$2
SANDBOX_ROOT=$work/data
PUBLISH_ADDR=$1
PUBLIC_BASE_URL=$url
DISK_FREE_FLOOR=1m
POOL_SIZE=python=1
ENV_FILE=$work/.env
END
}

# The program that the other steps test, without debug information.
take_binary() {
    local built=${CARGO_TARGET_DIR:-target}/debug/mcp-code-sandbox
    [[ -z ${COMPILE:-} ]] || return 0
    [[ -x $built ]] || die "$built is not there: run cargo build first"
    mkdir -p .build/image
    strip -o .build/image/mcp-code-sandbox "$built"
    SERVER_BINARY=.build/image/mcp-code-sandbox
}

start() {
    [[ ${BUILD[*]} != --build ]] || scripts/base-images.sh
    compose up --detach "${BUILD[@]}" >"$work/log" 2>&1 || {
        cat "$work/log" >&2
        exit 1
    }
    curl --silent --fail --output /dev/null --retry 60 --retry-delay 1 --retry-connrefused --retry-all-errors \
        "$url/readyz" || {
        compose logs >&2
        exit 1
    }
}

# shellcheck source=tests/check.sh
. tests/check.sh
# shellcheck source=tests/compose/volume.sh
. tests/compose/volume.sh

call() {
    jq -n --arg tool "$1" --argjson arguments "$2" \
        '{jsonrpc: "2.0", id: 1, method: "tools/call", params: {name: $tool, arguments: $arguments}}' |
        curl --silent --fail "$url/mcp" --header "Authorization: Bearer $token" --data @- | jq .result.structuredContent
}

server() { compose ps -q server; }

inspect() { docker inspect --format "$1" "$(server)"; }

root_id() { ${IN_VOLUME:+in_volume} cat "${IN_VOLUME:-$work/data}/.root-id"; }

of_sandboxes() { docker ps --all --quiet --filter "label=sandbox.root=$(root_id)"; }

is_unprivileged() {
    inspect '{{.Config.User}} {{.HostConfig.CapDrop}} {{.HostConfig.ReadonlyRootfs}} {{json .NetworkSettings.Ports}}' |
        tee /dev/stderr | grep -qF "1000:1000 [ALL] true {\"8080/tcp\":[{\"HostIp\":\"127.0.0.1\",\"HostPort\":\"$port\"}]}"
}

# Of those that have ended too.
logs_have_limits() {
    docker ps --all --quiet --filter "label=com.docker.compose.project=$PROJECT" >"$work/containers"
    [[ $(wc -l <"$work/containers") -ge $1 ]]
    # shellcheck disable=SC2046 # an id in each line
    docker inspect --format '{{.Name}} {{.HostConfig.LogConfig}}' $(<"$work/containers") | tee "$work/limits"
    ! grep -v 'max-file:5 max-size:10m' "$work/limits"
}

healthcheck() { docker exec "$(server)" mcp-code-sandbox healthcheck; }

version() { docker exec "$(server)" mcp-code-sandbox --version | tee /dev/stderr | grep -Eq '^mcp-code-sandbox [0-9.]+ \([0-9a-f]{12}\)$'; }

upload() {
    call upload_file '{"conversationId": "compose", "filename": "in.txt", "content": "MjAgMjIK"}' |
        tee /dev/stderr | jq -e '.success and .file.size == 6'
}

run() {
    call run_code "$(jq -n --arg language "$LANGUAGE" --arg code "$PROGRAM" \
        '{conversationId: "compose", $language, $code}')" >"$work/result"
    tee /dev/stderr <"$work/result" | jq -e '.status == "ok" and .files[0].name == "out.txt"'
}

download() {
    curl --silent --fail "$(jq -r '.files[] | select(.name == "out.txt").url' "$work/result")" | tee /dev/stderr >"$work/out"
    cmp - "$work/out" <<<"$1"
}

metric() { metrics | sed -n "s/^mcp_sandbox_$1 //p"; }

# After the answer, a sandbox that was started for a run loads an interpreter for the next one, which takes seconds.
conversation_keeps_its_sandbox() {
    for _ in {1..60}; do
        [[ $(metric "warm_sandboxes{language=\"$LANGUAGE\",state=\"owned\"}") != 1 ]] || return 0
        sleep 0.5
    done
    metrics
    return 1
}

own_runs() { metric 'run_starts_total{way="own"}'; }

run_warm() {
    local before
    before=$(own_runs)
    run
    [[ $(own_runs) == $((before + 1)) ]]
}

metrics() { curl --silent --fail --header "Authorization: Bearer $token" "$url/metrics"; }

sandboxes_are_siblings() {
    local ids
    mapfile -t ids < <(of_sandboxes)
    # The host's path of the conversation is what the engine mounts, or that of the slot which became it.
    docker inspect --format '{{range .Mounts}}{{.Source}} {{.Destination}}{{"\n"}}{{end}}' "${ids[@]}" |
        tee /dev/stderr | grep -Eq "^$work/data/([0-9a-f]{64}|\.tmp/[0-9a-f]{32}) /data$"
}

with_network() { call run_code '{"language": "shell", "code": "echo hi", "network": true}' | tee /dev/stderr; }

# The server looks again every 30 s.
network_is_allowed() {
    local try
    for try in {1..50}; do
        if with_network | jq -e '.stdout == "hi\n"'; then return 0; fi
        sleep 1
    done
    echo "not after $try s"
    compose logs --tail 20 firewall firewall-keeper
    return 1
}

status_with() { curl --silent --output /dev/null --write-out '%{http_code}' "$url/api/v1/sessions" --header "Authorization: Bearer $1"; }

# As docs/operating.md has it for a token that leaked.
a_new_token_ends_the_old_one() {
    local old=$token try
    [[ $(status_with "$old") == 200 ]]
    sed -i -E "s/^(MCP_API_TOKEN|METRICS_TOKEN)=.*/\1=new-$old/" "$work/.env"
    compose up --detach
    for try in {1..60}; do
        [[ $(status_with "new-$old") != 200 ]] || break
        sleep 1
    done
    echo "$(status_with "$old") $(status_with "new-$old") after $try s"
    [[ $(status_with "$old") == 401 && $(status_with "new-$old") == 200 ]]
    download $'42\n42'
}

# It installs the rules once; the keeper looks after them.
firewall_has_ended() {
    local id
    id=$(compose ps --all --quiet firewall 2>/dev/null || compose ps --quiet firewall)
    docker inspect --format '{{.State.Status}} {{.State.ExitCode}}' "$id" | tee /dev/stderr | grep -qx 'exited 0'
}

# As after a restart of Docker.
lost_rules_come_back() {
    scripts/firewall.sh remove
    for _ in {1..60}; do
        ! scripts/firewall.sh check || return 0
        sleep 1
    done
    compose logs --tail 20 firewall-keeper
    return 1
}

down() { compose down --timeout 60; }

nothing_is_left() {
    local left
    left=$(of_sandboxes; docker ps --all --quiet --filter "label=com.docker.compose.project=$PROJECT"
        docker network ls --quiet --filter "label=com.docker.compose.project=$PROJECT"
        docker network ls --quiet --filter "label=sandbox.root=$(root_id)")
    [[ -z $left ]] || { echo "left: $left"; return 1; }
}

tunnel() {
    export TUNNEL_TOKEN=stand-in PUBLIC_BASE_URL=https://sandbox.example.org CLOUDFLARED_IMAGE=debian:trixie-slim
    FILES=(--file docker-compose-cloudflare.yml)
    compose config >"$work/tunnel"
    cat "$work/tunnel"
    grep -q 'TUNNEL_TOKEN: stand-in' "$work/tunnel"
    grep -q 'image: debian:trixie-slim' "$work/tunnel"
    if grep 'ports:' "$work/tunnel"; then return 1; fi
}

# From where the tunnel's client is, which a container that does nothing stands in for.
start_behind_tunnel() {
    cat >"$work/stand-in.yml" <<'END'
services:
  cloudflared:
    image: ${IMAGE_PREFIX}mcp-code-sandbox:${IMAGE_TAG}
    entrypoint: [sleep]
    command: [infinity]
    stop_signal: SIGKILL
END
    export TUNNEL_TOKEN=stand-in PUBLIC_BASE_URL=https://sandbox.example.org
    FILES=(--file docker-compose-cloudflare.yml --file "$work/stand-in.yml")
    compose up --detach --build >"$work/log" 2>&1 || {
        cat "$work/log" >&2
        exit 1
    }
    for _ in {1..60}; do
        ! healthcheck >/dev/null 2>&1 || return 0
        sleep 1
    done
    compose logs >&2
    exit 1
}

# As the client sends on what came for the public name: to a name, with a method, a path and a body.
through_tunnel() {
    # shellcheck disable=SC2016 # expanded by the shell in the container
    compose exec -T cloudflared bash -c '
        exec 3<>"/dev/tcp/$1/8080"
        printf "%s %s HTTP/1.1\r\nHost: sandbox.example.org\r\nAuthorization: Bearer %s\r\n" "$2" "$3" "$5" >&3
        printf "Content-Length: %s\r\nConnection: close\r\n\r\n%s" "${#4}" "$4" >&3
        cat <&3' -- "$1" "$2" "$3" "${4:-}" "$token" | tee /dev/stderr
}

routes_of_tunnels_lead_here() {
    local name run='{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_code","arguments":{"language":"shell","code":"echo through"}}}'
    for name in server mcp-sandbox-server; do
        through_tunnel "$name" GET /healthz | head -n 1 | grep -q ' 200 '
        through_tunnel "$name" POST /mcp "$run" | grep -qF '"stdout":"through\n"'
    done
}

# It says which setting is missing, and how to find out what it is.
missing_settings_are_named() {
    sed -i.bak '/^DOCKER_GID=/d' "$work/.env"
    local refused=""
    compose config >"$work/missing" 2>&1 || refused=1
    mv "$work/.env.bak" "$work/.env"
    cat "$work/missing"
    [[ $refused ]]
    grep -q 'stat -c %g' "$work/missing"
}

runner_images() { docker images --no-trunc --quiet --filter label=sandbox.runner=true | sort -u; }

# From the same files as build.sh, and so from the cache and the same images, under the names to pull them by.
runners_are_built() {
    runner_images >"$work/images"
    compose --profile runners build runner-python runner-shell runner-typescript
    runner_images | diff "$work/images" -
    images | sort | diff - <(printf "$IMAGE_PREFIX%s:$IMAGE_TAG\n" mcp-sandbox-{python,shell,typescript})
}

has_no_socket() { ! docker exec "$(server)" test -S /var/run/docker.sock; }

# As the server would have to: from its own network.
filtered() {
    docker run --rm --network "container:$(server)" --entrypoint bash "$SERVER_IMAGE" -c '
        exec 3<>/dev/tcp/socket-proxy/2375
        printf "%s %s HTTP/1.1\r\nHost: engine\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" "$1" "$2" >&3
        head -n 1 <&3 | cut -d " " -f 2' -- "$1" "$2"
}

other_calls_are_refused() {
    local id call
    id=$(docker inspect --format '{{.Id}}' "$(server)")
    [[ $(filtered GET /_ping) == 200 ]]
    for call in "POST /containers/$id/exec" "POST /v1.41/containers/$id/kill" "GET /containers/$id/archive?path=/" \
        "POST /build" "POST /images/create?fromImage=x" "GET /networks/bridge" "POST /volumes/create" \
        "DELETE /images/mcp-sandbox-none" "POST /containers/$id/../create/exec"; do
        echo "$call"
        # shellcheck disable=SC2086 # method and path
        [[ $(filtered $call) == 403 ]]
    done
}

write_settings "127.0.0.1:$port" "$(stat -c %g /var/run/docker.sock)"
take_binary
check "a setting that is missing is named" missing_settings_are_named
check "the file for the tunnel is valid and publishes no port" tunnel
check "the runner images are built by Compose too" runners_are_built
start
check "the server is unprivileged and on the loopback only" is_unprivileged
check "the log of every service has a limit" logs_have_limits 4
check "the health check of the image passes" healthcheck
check "--version has the commit" version
check "upload" upload
check "run" run
check "download" download 42
check "the conversation keeps its sandbox" conversation_keeps_its_sandbox
check "run again, warm" run_warm
check "download again" download $'42\n42'
check "sandboxes mount the host's paths" sandboxes_are_siblings
check "the firewall's services let programs have the network" network_is_allowed
check "the one that installs the rules has ended" firewall_has_ended
check "the other one brings lost rules back" lost_rules_come_back
check "a new token ends the old one, and files stay" a_new_token_ends_the_old_one
token=new-$token
check "down" down
check "down leaves nothing" nothing_is_left

FILES+=(--file deploy/docker-compose-socket-proxy.yml)
start
check "through the filter: the server has no socket" has_no_socket
check "through the filter: the log of every service has a limit" logs_have_limits 5
check "through the filter: upload" upload
check "through the filter: run" run
check "through the filter: the conversation keeps its sandbox" conversation_keeps_its_sandbox
check "through the filter: run again, warm" run_warm
check "through the filter: runs may have the network" network_is_allowed
check "through the filter: other calls are refused" other_calls_are_refused
check "through the filter: down" down
check "through the filter: down leaves nothing" nothing_is_left

start_behind_tunnel
check "behind a tunnel: the routes to it lead to the server" routes_of_tunnels_lead_here
check "behind a tunnel: the log of every service has a limit" logs_have_limits 5
check "behind a tunnel: down" down
check "behind a tunnel: down leaves nothing" nothing_is_left

enter_engine
start
check "in a volume: upload" upload
check "in a volume: run" run
check "in a volume: download" download 42
check "in a volume: the conversation keeps its sandbox" conversation_keeps_its_sandbox
check "in a volume: run again, warm" run_warm
check "in a volume: download again" download $'42\n42'
check "in a volume: a new conversation gets a warm sandbox" new_conversation_is_warm
check "in a volume: sandboxes have parts of it" sandboxes_have_parts_of_the_volume
check "in a volume: programs see no more than their part" sees_no_more
check "in a volume: the firewall's services let programs have the network" network_is_allowed
check "in a volume: a conversation is deleted" deletes
check "in a volume: files outlive a server that is killed" outlives_a_kill
check "in a volume: a volume that is not there is refused" unknown_volume_is_refused
check "in a volume: each conversation has a user" each_has_a_user
check "in a volume: another volume is told" other_volume_is_told
check "in a volume: down" down
check "in a volume: down leaves nothing" nothing_is_left
echo "$passed passed, $failed failed"
((failed == 0))
