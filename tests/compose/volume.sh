#!/usr/bin/env bash
# deploy/docker-compose-volume.yml on an engine whose host has none of our directories: Docker 26, in a container. Sourced
# by run.sh. What `docker` and Compose are told here goes to that engine, until `leave_engine`.
# shellcheck disable=SC2034,SC2154 # set there, used here, and the other way round

ENGINE=mcp-compose-engine-$$
OUTER=${DOCKER_HOST:-}
VOLUME=mcp-code-sandbox

# The capability that is left out is one that not every machine has to give.
enter_engine() {
    docker build --quiet --tag mcp-code-sandbox-test-engine tests/compose/engine >"$work/log"
    docker run --detach --name "$ENGINE" --cap-add ALL --cap-drop SYS_RESOURCE --device-cgroup-rule 'a *:* rwm' \
        --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined \
        --volume /sys/fs/cgroup:/sys/fs/cgroup --volume "$work/engine:/engine" --volume /var/lib/docker --tmpfs /run \
        mcp-code-sandbox-test-engine >>"$work/log"
    local address
    address=$(docker inspect --format '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}' "$ENGINE")
    export DOCKER_HOST=unix://$work/engine/docker.sock
    for _ in {1..100}; do
        ! docker version >/dev/null 2>&1 || break
        sleep 0.2
    done
    outer save "$SERVER_IMAGE" "${IMAGE_PREFIX}mcp-code-sandbox-firewall:$IMAGE_TAG" mcp-sandbox-shell | docker load >>"$work/log"
    url=http://$address:8080
    write_settings "0.0.0.0:8080" "$(outer exec "$ENGINE" stat -c %g /var/run/docker.sock)"
    sed -i 's/^POOL_SIZE=.*/POOL_SIZE=shell=1/; /^SANDBOX_ROOT=/d' "$work/.env"
    IN_VOLUME=/files
    # shellcheck disable=SC2016 # expanded by the shell in the sandbox
    LANGUAGE=shell PROGRAM='echo $(($(tr " " + <in.txt))) >>out.txt'
    BUILD=(--no-build)
    FILES=(--file docker-compose.yml --file deploy/docker-compose-volume.yml)
}

leave_engine() {
    if [[ $OUTER ]]; then export DOCKER_HOST=$OUTER; else unset DOCKER_HOST; fi
    ! docker inspect "$ENGINE" >/dev/null 2>&1 || docker rm --force --volumes "$ENGINE"
}

# The client of the machine's engine.
outer() {
    if [[ $OUTER ]]; then docker --host "$OUTER" "$@"; else env --unset DOCKER_HOST docker "$@"; fi
}

# A program on what is in the volume.
in_volume() { docker run --rm --network none --user 0:0 --volume "$VOLUME:$IN_VOLUME" --entrypoint "$1" "$SERVER_IMAGE" "${@:2}"; }

pool_is_warm() {
    for _ in {1..60}; do
        [[ $(metric "warm_sandboxes{language=\"$LANGUAGE\",state=\"pooled\"}") != 1 ]] || return 0
        sleep 0.5
    done
    metrics
    return 1
}

run_in_new() {
    call run_code '{"conversationId": "'"$1"'", "language": "shell", "code": "echo '"$1"' >name; cat name"}'
}

# Its slot becomes its directory.
new_conversation_is_warm() {
    pool_is_warm
    local before
    before=$(metric 'run_starts_total{way="pool"}')
    run_in_new first | tee /dev/stderr | jq -e '.stdout == "first\n"'
    [[ $(metric 'run_starts_total{way="pool"}') == $((before + 1)) ]]
    call run_code '{"conversationId": "first", "language": "shell", "code": "cat name"}' | jq -e '.stdout == "first\n"'
    call list_files '{"conversationId": "first"}' | tee /dev/stderr | jq -e '.files[0].name == "name"'
    [[ $(in_volume bash -c 'cat /files/*/name') == first ]]
}

# The engine's own word for a part is that of the volume's directory on its host.
sandboxes_have_parts_of_the_volume() {
    local ids
    mapfile -t ids < <(of_sandboxes)
    docker inspect --format '{{range .HostConfig.Mounts}}{{.Type}} {{.Source}} {{.VolumeOptions.Subpath}} {{.Target}}{{"\n"}}{{end}}' \
        "${ids[@]}" | tee /dev/stderr | grep -Eq "^volume $VOLUME ([0-9a-f]{64}|\.tmp/[0-9a-f]{32}) /data$"
}

# Nothing of any other conversation, nor of the server, is in its container: its own part is there under two names.
sees_no_more() {
    call run_code '{"language": "shell", "code": "ls -A / /data; grep -c /data /proc/self/mountinfo"}' >"$work/seen"
    tee /dev/stderr <"$work/seen" | jq -e '.stdout | endswith("\n/data:\n2\n")'
}

deletes() {
    call delete_conversation '{"conversationId": "first"}' | tee /dev/stderr | jq -e .success
    [[ -z $(in_volume bash -c 'shopt -s nullglob; echo /files/*/name') ]]
}

outlives_a_kill() {
    local killed left
    run_in_new second >/dev/null
    killed=$(of_sandboxes | sort)
    [[ $killed ]]
    docker kill "$(server)"
    start
    for _ in {1..60}; do
        left=$(comm -12 <(echo "$killed") <(of_sandboxes | sort))
        [[ $left ]] || break
        sleep 0.5
    done
    [[ -z $left ]] || { echo "left: $left"; return 1; }
    call run_code '{"conversationId": "second", "language": "shell", "code": "cat name"}' | tee /dev/stderr |
        jq -e '.stdout == "second\n"'
}

unknown_volume_is_refused() {
    local said status=0
    said=$(compose run --rm --no-deps -e SANDBOX_VOLUME=elsewhere server check-config 2>&1) || status=$?
    echo "$said"
    [[ $status == 64 && $said == *"has no volume of that name"* ]]
    ! docker volume inspect elsewhere
}

# By the override that docs/operating.md has for it.
each_has_a_user() {
    cat >"$work/users.yml" <<'END'
services:
  server:
    user: "0:0"
    cap_add: [CHOWN, DAC_OVERRIDE, FOWNER]
    environment:
      SANDBOX_UIDS: 70000-71999
END
    local files=("${FILES[@]}") owners
    FILES+=(--file "$work/users.yml")
    compose rm --force --stop server
    start
    run_in_new third | tee /dev/stderr | jq -e '.stdout == "third\n"'
    # One from before is given to a user of its own with its files.
    call run_code '{"conversationId": "second", "language": "shell", "code": "cat name; id -u"}' | tee /dev/stderr |
        jq -e '.stdout | test("^second\n7[01][0-9]{3}\n$")'
    mapfile -t owners < <(in_volume bash -c 'stat -c %u /files/*/name' | tee /dev/stderr | sort -u | grep -x '7[01]...')
    ((${#owners[@]} == 2))
    FILES=("${files[@]}")
}

# It is there, but is not what is mounted.
other_volume_is_told() {
    docker volume create elsewhere
    cat >"$work/elsewhere.yml" <<'END'
services:
  server:
    environment:
      SANDBOX_VOLUME: elsewhere
END
    local files=("${FILES[@]}")
    FILES+=(--file "$work/elsewhere.yml")
    # Version 1.29 of Compose cannot replace a container on an engine as new as this.
    compose rm --force --stop server
    compose up --detach --no-build server
    for _ in {1..30}; do
        ! curl --silent "$url/readyz" | tee /dev/stderr | grep -q 'control workspace failed (no container starts' || break
        sleep 0.5
    done
    curl --silent "$url/readyz" | grep -q 'control workspace failed (no container starts'
    FILES=("${files[@]}")
}
