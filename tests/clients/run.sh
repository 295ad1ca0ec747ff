#!/usr/bin/env bash
# Real clients against the built server, over loopback and standard input. Needs Docker and the Python runner image.
# Installs the pinned clients below tests/clients/ on the first run. One line per check, at the end a count.
#
#   run.sh               all clients, one after another, then the applications
#   run.sh applications  only the applications, or those of them that are named after it
#   run.sh long          the one that follows a run of 90 seconds, which costs time and nothing else
#   run.sh documents     those that log in and are known by a document of theirs
#   run.sh sdks          the SDKs of Python and TypeScript, over HTTP, before a server on a cluster: KUBE_TEST_CONFIG and
#                        what else tests/cluster/run.sh sets
set -euo pipefail
cd "$(dirname "$0")"

server=${MCP_SERVER:-$(realpath ../../target/debug/mcp-code-sandbox)}
[ -x "$server" ] || { echo "$server is not there: run cargo build first" >&2; exit 2; }
work=$(mktemp -d)
share=$work # where a server on a cluster has its files
pids=()
clean_up() {
  kill "${pids[@]}" 2>/dev/null || true
  wait
  rm -rf "$work" "$share"
}
trap clean_up EXIT

# A virtual environment in directory $1, with what its requirements.txt says.
python_environment() {
  cmp -s "$1/requirements.txt" "$1/.venv/installed" && return
  rm -rf "$1/.venv"
  python3 -m venv "$1/.venv"
  "$1/.venv/bin/pip" install --quiet --requirement "$1/requirements.txt"
  cp "$1/requirements.txt" "$1/.venv/installed"
}

# The packages of directory $1, as its lock file has them. Further arguments are for npm.
node_packages() {
  (cd "$1" && npm ci --silent --no-audit --no-fund "${@:2}")
}

install() {
  python_environment python
  node_environment
  python_environment agents
  python_environment mcpo
  python_environment rest
  librechat_environment
  notebooks_environment
  e2b_environment
}

node_environment() {
  if ! cmp -s node/package-lock.json node/node_modules/installed; then
    node_packages node
    # The Node of the conformance suite, in case scripts of packages are not run.
    (cd node && if ! [ -x node_modules/.bin/node ]; then npm rebuild --silent node; fi)
    cp node/package-lock.json node/node_modules/installed
  fi
}

# Half a gigabyte, unpacked, of which nothing runs scripts.
librechat_environment() {
  cmp -s librechat/package-lock.json librechat/node_modules/installed && return
  node_packages librechat --ignore-scripts --omit=optional
  cp librechat/package-lock.json librechat/node_modules/installed
}

e2b_environment() {
  python_environment e2b
  cmp -s e2b/package-lock.json e2b/node_modules/installed && return
  node_packages e2b --ignore-scripts
  cp e2b/package-lock.json e2b/node_modules/installed
}

# Open WebUI is a hundred megabytes, of which one module is read.
notebooks_environment() {
  local wheel=open-webui==0.12.4
  python_environment notebooks
  [ -e "notebooks/.wheels/$wheel" ] && return
  notebooks/.venv/bin/pip download --quiet --no-deps --dest notebooks/.wheels "$wheel"
  touch "notebooks/.wheels/$wheel"
}

# More than a gigabyte, unpacked. None of it runs scripts when it is installed.
install_applications() {
  local lock=applications/package-lock.json
  if ! cmp -s "$lock" applications/node_modules/installed; then
    node_packages applications --ignore-scripts
    cp "$lock" applications/node_modules/installed
  fi
  python_environment applications/langchain
  python_environment applications/agents
}

# A port that was free a moment ago.
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

secrets() {
  MCP_API_TOKEN=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
  FILE_SECRET=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
  export MCP_API_TOKEN FILE_SECRET MCP_SERVER=$server
}

# Starts a server named $1 with further settings, and sets REPLY to its address. No package index: nothing here asks a
# foreign host. Every limit of the server is below the clients' own, and programs have a whole core.
start() {
  local name=$1 port
  shift
  port=$(free_port)
  env PACKAGE_TIMEOUT=30s PIP_INDEX_URL=http://127.0.0.1:9/simple NPM_CONFIG_REGISTRY=http://127.0.0.1:9/ RUN_CPUS=1 \
    SANDBOX_ROOT="$work/$name" MCP_HTTP_ADDR="127.0.0.1:$port" "$@" "$server" \
    >"$work/$name.log" 2>&1 &
  pids+=($!)
  REPLY=http://localhost:$port
  curl --silent --fail --output /dev/null --retry 50 --retry-delay 1 --retry-connrefused --retry-all-errors \
    "$REPLY/readyz" || { cat "$work/$name.log" >&2; exit 2; }
}

# shellcheck source=tests/check.sh
. ../check.sh
# shellcheck source=tests/clients/login.sh
. ./login.sh

curl_runs_code() {
  curl --silent --fail "$MCP_URL/mcp" --header "Authorization: Bearer $MCP_API_TOKEN" --data \
    '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_code","arguments":{"language":"python","code":"print(6 * 7)"}}}' |
    grep '"stdout":"42\\n"'
}

# The blocks between the marks of the README, in their order, print what it says.
readme() {
  mkdir -p "$work/readme"
  awk '/<!-- tested:begin -->/ { on = 1 } /<!-- tested:end -->/ { on = 0 }
       /^```/ { inside = on && $0 == "```sh"; next } inside' ../../README.md >"$work/readme/blocks.sh"
  printf '%s\n' "MCP_API_TOKEN=$MCP_API_TOKEN" "MCP_HTTP_ADDR=127.0.0.1:${MCP_URL##*:}" >"$work/readme/.env"
  (cd "$work/readme" && bash -euo pipefail blocks.sh >printed)
  # The engine may have images of more languages.
  sed -E '/^"(python|shell|typescript)"$/b; /^"[a-z+]+"$/d' "$work/readme/printed" | diff - /dev/fd/3 3<<'END'
"42\n"
"python"
"shell"
"typescript"
"File 'sales.csv' uploaded successfully (39 bytes)"
region
north    17
south     7

sales.png
sales.csv
PNG"The conversation's files were deleted"
END
}

# What is said instead of `null`: $1 is what makes a call of the README fail, $2 what it says then.
readme_says() {
  sed -n '1,/^call run_code/p' "$work/readme/blocks.sh" >"$work/readme/first.sh"
  (cd "$work/readme" && env "SERVER=$MCP_URL" "$1" bash first.sh >printed 2>&1)
  if grep null "$work/readme/printed"; then return 1; fi
  grep --fixed-strings "$2" "$work/readme/printed"
}

readme_says_what_is_wrong() {
  readme_says SERVER=http://localhost:9 "Failed to connect"
  sed -i 's/^MCP_API_TOKEN=.*/MCP_API_TOKEN=of-somebody-else/' "$work/readme/.env"
  readme_says "SERVER=$MCP_URL" unauthorized
  sed -i "s/^MCP_API_TOKEN=.*/MCP_API_TOKEN=$MCP_API_TOKEN/" "$work/readme/.env"
  sed -i 's/"language": "python"/"language": "cobol"/' "$work/readme/blocks.sh"
  readme_says "SERVER=$MCP_URL" cobol
}

# The code blocks of document $1 below heading $2, with this server's address and token.
documented() {
  awk -v heading="## $2" '/^## / { on = $0 == heading } /^```/ { inside = on && $0 != "```"; next } inside' "../../$1" |
    sed -e "s|YOUR_MCP_API_TOKEN|$MCP_API_TOKEN|g" -e "s|http://localhost:8080|$MCP_URL|g"
}

documented_rest() {
  documented docs/rest.md 'Try it' >"$work/readme/rest.sh"
  (cd "$work/readme" && bash -euo pipefail rest.sh >printed)
  grep --fixed-strings '"text":"42\n"' "$work/readme/printed"
  grep 'region,amount$' "$work/readme/printed"
  grep --fixed-strings '"name":"reports/sales.csv"' "$work/readme/printed"
  python3 -m zipfile --list "$work/readme/files.zip" | grep reports/sales.csv
}

documented_python() {
  documented docs/clients/sdks.md Python >"$work/example.py"
  python/.venv/bin/python "$work/example.py" | grep --line-regexp 42
}

documented_curl() { documented docs/clients/sdks.md curl | bash -euo pipefail | grep '"stdout":"42\\n"'; }

# Runs the script $1, which starts mcpo, until the check that does so ends: a check is a process of its own.
start_mcpo() {
  PATH=$PWD/mcpo/.venv/bin:$PATH bash -euo pipefail "$1" &
  # shellcheck disable=SC2064 # now
  trap "kill $!" EXIT
}

# The addresses of the tools that the document of mcpo at $1 has, once it is there.
mcpo_paths() {
  curl --silent --fail --retry 30 --retry-delay 1 --retry-connrefused "$1/openapi.json" |
    grep --only-matching '"/[a-z_]*":' | sort | tr -d '\n'
}

# What Open WebUI sees: each tool at an address of its own, plain JSON in and out. Other sites' pages can neither call
# it nor read it.
documented_mcpo() {
  local port status
  port=$(free_port)
  documented docs/clients/applications.md 'Open WebUI, through mcpo' | sed "s|--port 8000|--port $port|; s|^mcpo|exec mcpo|" >"$work/mcpo.sh"
  start_mcpo "$work/mcpo.sh"
  mcpo_paths "http://127.0.0.1:$port" | grep '"/list_runners":.*"/run_code":'
  mcpo_runs_code() {
    curl --silent "http://127.0.0.1:$port/run_code" --header 'Content-Type: application/json' \
      --header 'Origin: https://elsewhere.example' --dump-header "$work/mcpo.head" \
      --data '{"language":"python","code":"print(6 * 7)"}' "$@"
  }
  mcpo_runs_code --header 'Authorization: Bearer YOUR_MCPO_KEY' | grep '"stdout":"42\\n"'
  (! grep --ignore-case '^access-control-allow-origin' "$work/mcpo.head")
  status=$(mcpo_runs_code --output /dev/null --write-out '%{http_code}')
  [[ $status == 40[13] ]]
}

# mcpo with a file that has the token as a header, before the server at $1 with the tools that its users know.
documented_mcpo_file() {
  local port address MCP_URL=$1
  port=$(free_port)
  address=http://127.0.0.1:$port/sandbox
  documented docs/moving.md 'One Python' >"$work/mcpo.json"
  echo "exec mcpo --config '$work/mcpo.json' --api-key YOUR_MCPO_KEY --port $port" >"$work/mcpo_file.sh"
  start_mcpo "$work/mcpo_file.sh"
  mcpo_paths "$address" | grep '^"/execute_python":"/pip_install":$'
  curl --silent --fail "$address/execute_python" --header 'Authorization: Bearer YOUR_MCPO_KEY' \
    --header 'Content-Type: application/json' --data '{"code":"print(6 * 7)"}' | grep '"stdout":"42\\n"'
}

# The block for a client that starts the server itself, which finds it in its PATH.
documented_artifacts() {
  mkdir -p "$work/bin"
  ln -sf "$server" "$work/bin/mcp-code-sandbox"
  documented docs/moving.md Artifacts >"$work/artifacts.json"
  PATH=$work/bin:$PATH python/.venv/bin/python python/artifacts.py "$work/artifacts.json"
}

rest_document() {
  curl --silent --fail --output "$work/openapi.json" "$rest_url/api/v1/openapi.json"
  rest/.venv/bin/openapi-spec-validator "$work/openapi.json"
}

# What the document allows and what it does not, in many forms: no answer may be a 5xx or one that is not documented.
# The same forms each time, unless another SEED is given. Which checks are off for what is in rest/schemathesis.toml.
rest_properties() {
  local status=0
  (cd "$work" && "$OLDPWD/rest/.venv/bin/schemathesis" --config-file "$OLDPWD/rest/schemathesis.toml" run \
    "$rest_url/api/v1/openapi.json" \
    --header "Authorization: Bearer $MCP_API_TOKEN" \
    --max-examples 40 --request-timeout 60 --seed "${SEED:-1}" --no-color) || status=$?
  # Which request was slow, if one was.
  grep -E 'duration_us=[0-9]{8}' "$work/rest.log" || true
  return "$status"
}

# Checks the result of process $2, which has run beside the other checks and written to $work/$3.
check_beside() {
  local status=0
  wait "$2" || status=$?
  check "$1" shown "$status" "$work/$3"
}

shown() {
  cat "$2"
  return "$1"
}

conformance() {
  node/node_modules/.bin/node node/node_modules/@modelcontextprotocol/conformance/dist/index.js \
    server --url "$1/mcp" --scenario "$2"
}

# Programs run in new containers: nothing is kept warm for conversations that never come again.
start_cold() { start "$@" POOL_SIZE=0 SANDBOX_REUSE=never; }

# What lies between a server and a model: what it makes of the tools of each set, and whether it can call them.
converters() {
  local toolset name urls=default=$MCP_URL
  for toolset in artifacts python; do
    start_cold "$toolset" MCP_TOOLSET=$toolset
    urls+=" $toolset=$REPLY"
  done
  python_url=$REPLY
  export MCP_URLS=$urls
  for name in n8n langchain_google ai_sdk ajv; do
    check "converters, $name" node/node_modules/.bin/node "node/$name.mjs"
  done
  for name in langchain openai_agents google_genai; do
    check "converters, $name" agents/.venv/bin/python "agents/with_$name.py"
  done
  check 'converters, fastmcp' python/.venv/bin/python python/with_fastmcp.py
}

# As vLLM connects to the Python tool of gpt-oss.
python_tool() { MCP_URL=$1 python/.venv/bin/python python/python_tool.py; }

# With the token in the address, as LibreChat is told.
librechat() {
  LIBRECHAT_CODE_BASEURL=${1/:\/\//:\/\/$MCP_API_TOKEN@}/librechat/v1 node/node_modules/.bin/node librechat/drive.mjs
}

# A LibreChat that says who its users are, before a server that knows its key.
librechat_users() {
  local LIBRECHAT_CODE_BASEURL CODEAPI_JWT_ISSUER=https://chat.example
  mkdir -p "$work/chat"
  node/node_modules/.bin/node librechat/users.mjs keys "$work/chat"
  start_cold chat DIALECTS=librechat OAUTH_ISSUER=$CODEAPI_JWT_ISSUER OAUTH_JWKS_FILE="$work/chat/keys.json" \
    OAUTH_AUDIENCE=codeapi
  LIBRECHAT_CODE_BASEURL=$REPLY/librechat/v1
  export LIBRECHAT_CODE_BASEURL CODEAPI_JWT_ISSUER
  check "LibreChat's users" node/node_modules/.bin/node librechat/users.mjs run "$work/chat"
}

# What runs cells in a Jupyter server: $1 is the script, $2 the address of ours.
notebooks() { MCP_URL=$2 notebooks/.venv/bin/python "notebooks/$1.py" "${@:3}"; }

# Runs a program in the environment that all clients of E2B are configured by, with the server at $1.
e2b() {
  E2B_API_KEY=$MCP_API_TOKEN E2B_API_URL=$1/e2b/api E2B_SANDBOX_URL=$1/e2b/sandbox "${@:2}"
}

# Each in one process for all its ways to connect.
python_client() { check "Python mcp: $*" python/.venv/bin/python python/client.py "$@"; }
typescript_client() { check "TypeScript: $*" node/node_modules/.bin/node node/client.mjs "$@"; }

conformance_suite() {
  local forwarder scenario
  node/node_modules/.bin/node node/forward.mjs >"$work/forwarder" &
  pids+=($!)
  until [ -s "$work/forwarder" ]; do sleep 0.1; done
  forwarder=$(cat "$work/forwarder")
  for scenario in server-initialize ping logging-set-level completion-complete tools-list resources-list prompts-list \
    server-sse-multiple-streams dns-rebinding-protection; do
    check "conformance, $scenario" conformance "$forwarder" "$scenario"
  done
}

all_clients() {
  start_cold rest
  rest_url=$REPLY
  start_cold dialects DIALECTS=dify,e2b,jupyter,librechat,python_tool RUN_TIMEOUT_MAX=120s
  local dialects_url=$REPLY
  start_cold http
  export MCP_URL=$REPLY SANDBOX_ROOT=$work/http
  check 'curl' curl_runs_code
  check 'README, curl' readme
  check 'README, curl that fails' readme_says_what_is_wrong
  check 'docs/rest.md' documented_rest
  python_client auto legacy 2026-07-28 sse
  check 'Python mcp, as vLLM connects' python_tool "$dialects_url"
  check "LibreChat's tools" librechat "$dialects_url"
  librechat_users
  check 'Jupyter, Open WebUI' notebooks open_webui "$dialects_url" notebooks/.wheels
  check 'Jupyter, AutoGen' notebooks autogen "$dialects_url"
  check 'Jupyter, jupyter-kernel-client' notebooks kernel_client "$dialects_url"
  check "E2B's SDK for Python" e2b "$dialects_url" e2b/.venv/bin/python e2b/sandbox.py
  check "E2B's SDK for Python, smolagents" e2b "$dialects_url" e2b/.venv/bin/python e2b/cells.py
  check "E2B's SDK for JavaScript" e2b "$dialects_url" node/node_modules/.bin/node e2b/sandbox.mjs
  typescript_client sdk-http sdk-sse client-legacy client-auto
  login
  check 'clients that are known by documents' apart ./run.sh documents_apart
  converters
  check 'docs/clients/sdks.md, Python' documented_python
  check 'docs/clients/sdks.md, curl' documented_curl
  check 'docs/clients/applications.md, Open WebUI through mcpo' documented_mcpo
  check 'docs/clients/, what applications are configured with' node/node_modules/.bin/node node/documented.mjs \
    'Gemini CLI' opencode 'Cline, Roo Code' 'Claude Desktop' 'VS Code' Cursor Windsurf Zed 'LM Studio, Kiro' \
    n8n 'Open WebUI' LibreChat TypeScript
  check 'docs/moving.md, mcpo with a file' documented_mcpo_file "$python_url"
  check 'docs/moving.md, sandbox-mcp over HTTP' rest/.venv/bin/python rest/sessions.py
  check 'REST, the document' rest_document
  # Slow answers fail this, so it starts when most of the other checks are done, and runs beside those that are left.
  rest_properties >"$work/properties" 2>&1 &
  pids+=($!)
  local properties=$!
  conformance_suite
  SANDBOX_ROOT=$work/stdio
  python_client stdio stdio-legacy
  typescript_client sdk-stdio
  check 'docs/moving.md, a client of artifacts that starts the server' documented_artifacts
  check_beside 'REST, whatever the document allows' "$properties" properties
}

# Runs a command in a network of its own, which has loopback and nothing else: it can ask no foreign host for anything.
# Servers in it reach the container engine by its socket. What it mounts, nobody else sees.
apart() {
  local as_user=()
  ((EUID == 0)) || as_user=(--map-current-user --keep-caps)
  # shellcheck disable=SC2016 # for the other shell
  unshare "${as_user[@]}" --net --mount bash -euc 'ip link set lo up; exec "$@"' - "$@"
}

applications() {
  local count status=0
  mkdir -p "$work/applications"
  apart node/node_modules/.bin/node applications/drive.mjs "$work/applications" "$@" >"$work/applications.out" || status=$?
  cat "$work/applications.out"
  count=$(grep -c '^ok ' "$work/applications.out" || true)
  passed=$((passed + count))
  count=$(grep -c '^FAILED ' "$work/applications.out" || true)
  failed=$((failed + count))
  # It has ended before it came to a result.
  ((status == 0 || count > 0)) || failed=$((failed + 1))
}

# Beside the other clients, the packages arrive on a new machine.
clients_and_applications() {
  install_applications >"$work/installed" 2>&1 &
  pids+=($!)
  local installing=$!
  all_clients
  check_beside 'applications, their packages' "$installing" installed
  applications
}

# The server's files are a directory of the claim that is its own. Its sandbox is proved before the first run.
sdks() {
  share=$(mktemp -d "$KUBE_TEST_FILES/test-XXXXXX")
  chown 1000:1000 "$share"
  start sdks EXECUTOR=kubernetes KUBECONFIG="$KUBE_TEST_SERVER_CONFIG" KUBE_VOLUME_CLAIM="$KUBE_TEST_CLAIM" \
    KUBE_VOLUME_PATH="${share##*/}" SANDBOX_ROOT="$share" \
    KUBE_SECCOMP="$KUBE_TEST_PROFILE" MAX_CONCURRENT_RUNS=8 SANDBOX_REUSE=conversation ALLOW_NETWORK=0
  export MCP_URL=$REPLY SANDBOX_ROOT=$share
  check 'curl' curl_runs_code
  python_client auto
  typescript_client sdk-http
}

long_run() {
  start_cold long DIALECTS=jupyter RUN_TIMEOUT_MAX=120s
  export MCP_URL=$REPLY SANDBOX_ROOT=$work/long
  check 'Jupyter, Open WebUI and a cell of 70 s' notebooks open_webui "$REPLY" notebooks/.wheels patient
  check 'Python mcp, a run of 90 s with calls of 60 s' python/.venv/bin/python python/client.py long
}

# For servers that clients start as well, whatever the disk of this machine has left: clients hand it on.
export DISK_FREE_FLOOR=1m

secrets
case ${1:-} in
  sdks | documents)
    python_environment python
    node_environment
    ;;
  documents_apart) ;; # they are there
  *) install ;;
esac
case ${1:-} in
  '') clients_and_applications ;;
  sdks) sdks ;;
  documents) apart ./run.sh documents_apart; exit ;;
  documents_apart) documents ;;
  applications)
    install_applications
    applications "${@:2}"
    ;;
  long) long_run ;;
  *) echo "usage: run.sh [applications [NAME...] | long | documents | sdks]" >&2; exit 2 ;;
esac
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
