#!/usr/bin/env bash
# The examples for proxies in deploy/, each as it is but for the ports and the certificate: nginx, Caddy and Traefik in
# front of the built server, which needs no engine for this. One line per check, at the end a count.
#
# nginx and caddy are found in PATH. Traefik, which Debian does not have, is installed from requirements.txt. Needs curl,
# openssl, jq and python3.
set -euo pipefail
cd "$(dirname "$0")/../.."

say() { printf '%s\n' "$*" >&2; }

server=${MCP_SERVER:-${CARGO_TARGET_DIR:-target}/debug/mcp-code-sandbox}
[[ -x $server ]] || { say "$server is not there: run cargo build first"; exit 2; }
NAME=sandbox.example.org

work=$(mktemp -d)
pids=()
clean_up() {
    ((${#pids[@]} == 0)) || kill "${pids[@]}" 2>/dev/null || true
    wait
    rm -rf "$work"
}
trap clean_up EXIT
# The processes of nginx that serve are another user's.
chmod 711 "$work"

# shellcheck source=tests/check.sh
. tests/check.sh
# shellcheck source=tests/deploy/environment.sh
. tests/deploy/environment.sh

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# In the background, with its output in the file $1.
begin() {
    "${@:2}" >"$work/$1.log" 2>&1 &
    pids+=($!)
}

begin_server() {
    token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
    upstream=$(free_port)
    begin server env MCP_API_TOKEN="$token" FILE_SECRET="$token$token" SANDBOX_ROOT="$work/files" DISK_FREE_FLOOR=1m \
        MCP_HTTP_ADDR="127.0.0.1:$upstream" PUBLIC_BASE_URL="https://$NAME" DIALECTS=jupyter DOCKER_HOST="unix://$work/no-engine" \
        "$server"
    answers server "http://127.0.0.1:$upstream/healthz"
}

make_certificate() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "/CN=$NAME" \
        -addext "subjectAltName=DNS:$NAME" -keyout "$work/privkey.pem" -out "$work/fullchain.pem" 2>/dev/null
}

# Waits until $2 answers; shows the log of $1 if it does not.
answers() {
    for _ in {1..100}; do
        ! ask --fail --output /dev/null "$2" 2>/dev/null || return 0
        sleep 0.1
    done
    cat "$work/$1.log" >&2
    return 1
}

# As from elsewhere, by the public name. Certificates here are not those of an authority.
ask() {
    curl --silent --show-error --insecure --noproxy '*' --resolve "$NAME:$http:127.0.0.1" \
        --resolve "$NAME:$https:127.0.0.1" "$@"
}

authorized() { ask --header "Authorization: Bearer $token" "$@"; }

# The example in the file $1 with the ports and the server of this test.
adapted() { sed "s/127\.0\.0\.1:8080/127.0.0.1:$upstream/" "$1"; }

begin_nginx() {
    local temporary
    adapted deploy/nginx.conf | sed -E "s/listen (\[::\]:)?80;/listen \1$http;/; s/listen (\[::\]:)?443 /listen \1$https /
        s|/etc/ssl/mcp-code-sandbox|$work|" >"$work/site.conf"
    temporary=$(printf '%s_temp_path %s/nginx; ' client_body "$work" proxy "$work" fastcgi "$work" uwsgi "$work" scgi "$work")
    # As many connections as Debian has it.
    cat >"$work/nginx.conf" <<END
pid $work/nginx.pid;
events { worker_connections 768; }
http {
    access_log off;
    $temporary
    include $work/site.conf;
}
END
    begin nginx nginx -c "$work/nginx.conf" -e stderr -g 'daemon off;'
}

begin_caddy() {
    {
        printf '{\n admin off\n http_port %s\n https_port %s\n skip_install_trust\n local_certs\n}\n' "$http" "$https"
        adapted deploy/Caddyfile
    } >"$work/Caddyfile"
    begin caddy env HOME="$work" XDG_DATA_HOME="$work" XDG_CONFIG_HOME="$work" \
        caddy run --config "$work/Caddyfile" --adapter caddyfile
}

begin_traefik() {
    need_environment
    # Without an authority, Traefik has a certificate of its own.
    sed "s/:80$/:$http/; s/:443$/:$https/; s|/etc/traefik|$work|; /^certificatesResolvers:/,/^$/d" \
        deploy/traefik/traefik.yml >"$work/traefik.yml"
    adapted deploy/traefik/sandbox.yml | sed '/certResolver/d; s/tls:$/tls: {}/' >"$work/sandbox.yml"
    begin traefik "$ENVIRONMENT/bin/traefik" --configfile="$work/traefik.yml"
}

without_tls_is_sent_to_tls() {
    local found
    found=$(ask --output /dev/null --write-out '%{http_code} %{redirect_url}' "http://$NAME:$http/docs?a=b")
    echo "$found"
    [[ $found =~ ^30[18]\ https://$NAME(:$https)?/docs\?a=b$ ]]
}

page_is_http2() {
    [[ $(ask --output "$work/page" --write-out '%{http_version} %{http_code}' "https://$NAME:$https/") == "2 200" ]]
    grep -q '<!doctype html>' "$work/page"
}

# The codes of all answers to the addresses in the file $1, and how many there are of each.
codes() {
    ask --parallel --parallel-max 100 --write-out '%{http_code}\n' --config "$1" 2>"$work/errors" | sort | uniq -c
}

# Addresses, as configuration for curl.
fetched() { sed "s|^|url = \"https://$NAME:$https/|; s|$|\"\noutput = /dev/null|"; }

# Each loads the page for the first time and asks for a few things.
office_meets_no_limit() {
    local parts
    parts=$(ask "https://$NAME:$https/" | grep -Eo '(href|src)="assets/[^"]*' | cut -d '"' -f 2)
    [[ $(wc -l <<<"$parts") == 4 ]]
    for _ in {1..40}; do printf '%s\n' "" "$parts" healthz api/v1/openapi.json favicon.svg; done | fetched >"$work/office"
    codes "$work/office" | tee "$work/codes"
    [[ $(awk '{print $2}' "$work/codes") == 200 ]]
}

# Waits until all of the streams have a line that begins with $1.
all_have() {
    local count
    for _ in {1..400}; do
        count=$(grep -l "^$1" "$work"/stream-* | wc -l)
        [[ $count != 100 ]] || return 0
        sleep 0.1
    done
    echo "$count have $1"
    return 1
}

# Signs of life come every 15 s.
hundred_streams_stay_open() {
    local streams=() number status=0
    for number in {1..100}; do
        authorized --no-buffer "https://$NAME:$https/sse" >"$work/stream-$number" 2>/dev/null &
        streams+=($!)
    done
    if ! all_have "event: endpoint" || ! all_have :; then status=1; fi
    kill "${streams[@]}"
    rm "$work"/stream-*
    return "$status"
}

# The largest there may be, in the longest form of base64 that there is.
largest_upload_passes() {
    {
        printf '%s' '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"upload_file","arguments":'
        printf '%s' '{"conversationId":"proxy","filename":"large","content":"'
        head -c 50M /dev/zero | base64 | sed 's/$/\\r\\n/' | tr -d '\n'
        printf '%s' '"}}}'
    } >"$work/upload"
    authorized --max-time 120 --data-binary "@$work/upload" "https://$NAME:$https/mcp" >"$work/answer"
    cut -c 1-300 "$work/answer"
    jq -e '.result.structuredContent.file.size == 50 * 1024 * 1024' "$work/answer"
}

# A kernel needs no engine before its first cell. After the handshake, the server has nothing to say.
websockets_are_opened() {
    local kernel status
    kernel=$(authorized --request POST "https://$NAME:$https/jupyter/api/kernels" | jq --raw-output .id)
    status=$(authorized --http1.1 --max-time 2 --output /dev/null --write-out '%{http_code}' \
        --header 'Connection: Upgrade' --header 'Upgrade: websocket' --header 'Sec-WebSocket-Version: 13' \
        --header 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==' \
        "https://$NAME:$https/jupyter/api/kernels/$kernel/channels" 2>/dev/null) || true
    echo "$status"
    [[ $status == 101 ]]
}

metrics_are_not_shown() {
    [[ $(ask --output /dev/null --write-out '%{http_code}' "https://$NAME:$https/metrics") == 404 ]]
}

# Its numbers: more than a burst, faster than the rate.
flood_is_told_to_wait() {
    for _ in {1..3000}; do echo healthz; done | fetched >"$work/flood"
    ask --parallel --parallel-max 100 --write-out '%{http_code} %header{retry-after}\n' --config "$work/flood" \
        2>"$work/errors" | sort | uniq -c | tee "$work/codes"
    grep -q ' 200 $' "$work/codes"
    grep -Eq ' 429 [0-9]+$' "$work/codes"
    # None without a time to wait, and no other answer.
    if grep -Ev ' (200 |429 [0-9]+)$' "$work/codes"; then return 1; fi
}

renewals_are_let_through() {
    [[ $(ask --output /dev/null --write-out '%{http_code}' "http://$NAME:$http/.well-known/acme-challenge/none") == 404 ]]
}

behind() {
    local proxy=$1
    http=$(free_port) https=$(free_port)
    "begin_$proxy"
    check "$proxy begins with the example" answers "$proxy" "https://$NAME:$https/healthz"
    check "$proxy: what comes without TLS is sent to TLS" without_tls_is_sent_to_tls
    check "$proxy: the page comes by HTTP/2" page_is_http2
    check "$proxy: an office behind one address meets no limit" office_meets_no_limit
    check "$proxy: a hundred event streams begin and stay open" hundred_streams_stay_open
    check "$proxy: the largest upload passes" largest_upload_passes
    check "$proxy: WebSockets are opened" websockets_are_opened
    check "$proxy: metrics are not shown" metrics_are_not_shown
}

http=0 https=0
begin_server
make_certificate
behind nginx
check "nginx: certificates can be renewed" renewals_are_let_through
check "nginx: a flood is told to wait" flood_is_told_to_wait
behind caddy
behind traefik
check "traefik: a flood is told to wait" flood_is_told_to_wait
echo "$passed passed, $failed failed"
((failed == 0))
