# shellcheck shell=bash
# Clients that log in by themselves, given nothing but an address. Sourced by run.sh.

: "${work:?is a directory for what servers print}"
PERSON=$PWD/node/person.mjs
# A host that only the network of `documents` has, with an address of the internet that is nobody's (RFC 7526).
CLIENT_HOST=client.example CLIENT_ADDRESS=192.88.99.1

# All of them at the server of $1; $2 is said of it.
clients_log_in() {
  local name
  export MCP_URL=$1 PERSON
  check "Python mcp, $2" python/.venv/bin/python python/login.py
  for name in sdk client mcp-remote; do
    check "TypeScript $name, $2" node/node_modules/.bin/node node/login.mjs "$name"
  done
  check "Rust rmcp, $2" ../../target/debug/examples/login
}

# The server asks the issuer when there is a token of it, so it can start first.
login() {
  local port issuer MCP_URL
  port=$(free_port)
  issuer=http://127.0.0.1:$port
  start_cold login OAUTH_ISSUER="$issuer"
  node/node_modules/.bin/node node/issuer.mjs "$port" "$REPLY/mcp" >"$work/issuer.log" 2>&1 &
  pids+=($!)
  curl --silent --fail --output /dev/null --retry 50 --retry-delay 1 --retry-connrefused \
    "$issuer/.well-known/openid-configuration" || { cat "$work/issuer.log" >&2; exit 2; }
  clients_log_in "$REPLY" 'logs in at an issuer'
  start_cold builtin OAUTH_BUILTIN=1
  clients_log_in "$REPLY" 'logs in with a token'
}

# Clients that are known by a document of theirs, which the server fetches from the internet only. Hosts of it are in the
# network and the files of this process alone: see `apart`.
documents() {
  [ "$(ip -brief link | wc -l)" = 1 ] || { echo "this belongs in a network of its own" >&2; exit 2; }
  ip address add "$CLIENT_ADDRESS/32" dev lo
  printf '%s\n' '127.0.0.1 localhost' "$CLIENT_ADDRESS $CLIENT_HOST" >"$work/hosts"
  mount --bind "$work/hosts" /etc/hosts
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "/CN=$CLIENT_HOST" \
    -addext "subjectAltName=DNS:$CLIENT_HOST" -addext basicConstraints=critical,CA:FALSE \
    -keyout "$work/client.key" -out "$work/client.crt" 2>"$work/openssl.log"
  export CLIENT_DOCUMENT=https://$CLIENT_HOST/client.json
  node/node_modules/.bin/node node/client_document.mjs "$CLIENT_DOCUMENT" "$work/client.key" "$work/client.crt" \
    >"$work/document.log" 2>&1 &
  pids+=($!)
  curl --silent --fail --output /dev/null --retry 50 --retry-delay 1 --retry-connrefused --cacert "$work/client.crt" \
    "$CLIENT_DOCUMENT" || { cat "$work/document.log" >&2; exit 2; }
  start_cold documents OAUTH_BUILTIN=1 SSL_CERT_FILE="$work/client.crt"
  clients_log_in "$REPLY" 'is known by its document'
}
