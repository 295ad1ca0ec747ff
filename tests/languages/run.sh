#!/usr/bin/env bash
# The languages that are built only when asked for: builds the image of each, and runs a program in it. Needs Docker,
# the images of the usual languages, the built server, curl and jq. One line per check, at the end a count.
#
#   run.sh            all of them
#   run.sh r go       only these
#
# Images that were not there before are removed in the end; what they are made of stays in the builder's cache.
set -euo pipefail
cd "$(dirname "$0")/../.."

server=${MCP_SERVER:-${CARGO_TARGET_DIR:-target}/debug/mcp-code-sandbox}
[[ -x $server ]] || { echo "$server is not there: run cargo build first" >&2; exit 2; }
# The folder below runners/ is the name of each, and mostly the language.
languages=("$@")
((${#languages[@]})) || languages=(c cpp go java lua perl php r ruby rust workbench)
work=$(mktemp -d)
pid=""
web=""
added=()
token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
url=http://127.0.0.1:$port

clean_up() {
    [[ ! $pid ]] || kill "$pid" 2>/dev/null || true
    [[ ! $web ]] || kill "$web" 2>/dev/null || true
    wait
    ((${#added[@]} == 0)) || docker rmi "${added[@]}" >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap clean_up EXIT

# shellcheck source=tests/check.sh
. tests/check.sh

# The programs may reach a web server of this machine's, and no other host.
start() {
    mkdir "$work/web"
    echo 'a listed host' >"$work/web/index.html"
    python3 -u -m http.server --bind 127.0.0.1 --directory "$work/web" 0 >"$work/web.log" 2>&1 &
    web=$!
    until web_port=$(grep -oP 'port \K\d+' "$work/web.log"); do sleep 0.1; done
    env NETWORK_ALLOW=plain.test:80 NETWORK_PRIVATE=127.0.0.0/8 NETWORK_HOSTS="plain.test=127.0.0.1:$web_port" MCP_API_TOKEN="$token" FILE_SECRET="$token" SANDBOX_ROOT="$work/root" MCP_HTTP_ADDR="127.0.0.1:$port" \
        POOL_SIZE=0 SANDBOX_REUSE=never DISK_FREE_FLOOR=1m RUN_CPUS=1 "$server" >"$work/log" 2>&1 &
    pid=$!
    curl --silent --fail --output /dev/null --retry 50 --retry-delay 1 --retry-connrefused --retry-all-errors "$url/readyz"
}

# What a run of the code on standard input gives, in language $1.
run() {
    jq -Rs --arg language "$1" '{jsonrpc: "2.0", id: 1, method: "tools/call",
        params: {name: "run_code", arguments: {language: $language, code: ., timeoutSeconds: 60, network: true}}}' |
        curl --silent --fail "$url/mcp" --header "Authorization: Bearer $token" --data @- | jq .result.structuredContent
}

runs_a_program() {
    run "$1" <"tests/languages/main.$1" >"$work/answer"
    cat "$work/answer"
    [[ $(jq -r .status "$work/answer") == ok ]]
    [[ $(jq -r .stdout "$work/answer" | tr -d ' \t\n') == '42北京[3,1]' ]]
}

# Programs that say what a listed host answers, and then that they do not reach another one.
reaches_listed_hosts() {
    run "$1" <"tests/languages/reaches.$1" >"$work/answer"
    cat "$work/answer"
    [[ $(jq -r .stdout "$work/answer" | tr -d '\n') == 'a listed hostnot evil' ]]
    [[ $(jq -r '.network.hosts[] | .host + " " + .verdict' "$work/answer" | sort | xargs) == 'evil.test denied plain.test allowed' ]]
}

plots() {
    run r <tests/languages/main.r | jq -e '.files[0].name == "figure-1-1.png"'
}

# $2 is code that its compiler refuses.
tells_what_does_not_compile() {
    run "$1" <<<"$2" >"$work/answer"
    cat "$work/answer"
    [[ $(jq -r .status "$work/answer") == error ]]
    jq -r .stderr "$work/answer" | grep -E '^The program did not compile\.$|^error: compilation failed$'
}

for language in "${languages[@]}"; do
    docker image inspect "mcp-sandbox-$language" >/dev/null 2>&1 || added+=("mcp-sandbox-$language")
    check "$language is built" ./build.sh "$language"
done
start
for language in "${languages[@]}"; do
    check "$language runs a program" runs_a_program "$language"
    [[ ! -e tests/languages/reaches.$language ]] || check "$language reaches listed hosts" reaches_listed_hosts "$language"
    case $language in
        r) check 'r plots' plots ;;
        c | cpp) check "$language tells what does not compile" tells_what_does_not_compile "$language" 'int main() { return x; }' ;;
        go) check 'go tells what does not compile' tells_what_does_not_compile go 'package main; func main() { x := 1 }' ;;
        java) check 'java tells what does not compile' tells_what_does_not_compile java 'class A { int x = ""; }' ;;
        rust) check 'rust tells what does not compile' tells_what_does_not_compile rust 'fn main() { x }' ;;
    esac
done
echo "$passed passed, $failed failed"
((failed == 0))
