#!/usr/bin/env bash
# A release for real: makes one, serves it on the loopback, and starts fresh clones from it, on an engine that has no
# image. One line per check, at the end a count.
#
#   tests/release/run.sh        a release with the program that cargo built, so that nothing is compiled
#   tests/release/run.sh DIR    the signed release in DIR, by scripts/release.sh
#
# The engine, the clones and the server of files are in a network of their own, in which start.sh may install firewall
# rules. Needs root, the runner images, curl, git, jq, python3 and ssh-keygen.
set -euo pipefail
cd "$(dirname "$0")/../.."

say() { printf '%s\n' "$*" >&2; }

die() {
    say "error: $*"
    exit 2
}

[[ $EUID -eq 0 ]] || die "the engine of this test needs root. Run: sudo $0"
if [[ -z ${RELEASE_TEST_WORK:-} ]]; then
    # Where programs of this test keep what they run with: paths of sockets are short.
    RELEASE_TEST_WORK=$(mktemp -d)
    export RELEASE_TEST_WORK
    exec unshare --net "$0" "$@"
fi
work=$RELEASE_TEST_WORK
# shellcheck source=tests/check.sh
. tests/check.sh
# shellcheck source=scripts/release-facts.sh
. scripts/release-facts.sh

VERSION=$(version)
ARCH=$(uname -m)
PORT=8080
FILES_PORT=8081
ENGINE=unix://$work/engine/socket
RELEASE=$work/release
started=()

# What was started last ends first: servers before their engine.
clean_up() {
    local at
    for ((at = ${#started[@]} - 1; at >= 0; at--)); do end "${started[at]}"; done
    rm -rf "$work"
}
trap clean_up EXIT

end() { ! kill "$1" 2>/dev/null || wait "$1" 2>/dev/null || true; }

make_release() {
    local built=${CARGO_TARGET_DIR:-target}/debug/mcp-code-sandbox
    ssh-keygen -q -t ed25519 -N '' -C '' -f "$work/key"
    [[ -x $built ]] || die "$built is not there: run cargo build first"
    strip -o "$work/program" "$built"
    RELEASE_PROGRAM=$work/program RELEASE_RUNNERS="shell typescript" RELEASE_KEY=$work/key \
        scripts/release.sh "$RELEASE" >"$work/log" 2>&1 || {
        cat "$work/log" >&2
        die "there is no release to be tested"
    }
    signer "$work/key" >"$work/signers"
}

signer() { echo "mcp-code-sandbox namespaces=\"mcp-code-sandbox\" $(cat "$1.pub")"; }

take_release() {
    cp -r "$1" "$RELEASE"
    [[ -e $RELEASE/SHA256SUMS.sig ]] || die "$1 is not signed"
    cp scripts/release-signers "$work/signers"
}

start_engine() {
    mkdir "$work/engine"
    echo '{}' >"$work/engine/daemon.json"
    dockerd --bridge=none --iptables=false --ip6tables=false --ip-forward=false --host "$ENGINE" \
        --containerd-namespace "${work##*/}" --containerd-plugins-namespace "${work##*/}-plugins" \
        --config-file "$work/engine/daemon.json" --data-root "$work/engine/data" --exec-root "$work/engine/exec" \
        --pidfile "$work/engine/pid" >"$work/engine/log" 2>&1 &
    started+=($!)
    for _ in {1..150}; do
        ! engine version >/dev/null 2>&1 || return 0
        kill -0 "${started[-1]}" 2>/dev/null || break
        sleep 0.2
    done
    cat "$work/engine/log" >&2
    die "there is no engine to load images into"
}

engine() { docker --host "$ENGINE" "$@"; }

serve_files() {
    python3 -m http.server --bind 127.0.0.1 --directory "$RELEASE" "$FILES_PORT" >/dev/null 2>&1 &
    FILES_SERVER=$!
    started+=("$FILES_SERVER")
    curl --silent --output /dev/null --retry 30 --retry-delay 1 --retry-connrefused "http://127.0.0.1:$FILES_PORT/"
}

# Where Rust is asked for and nothing can be built.
stand_in_for_compilers() {
    local name
    mkdir -p "$work/bin" "$work/home"
    for name in cargo rustc; do
        printf '#!/bin/sh\necho "%s was called" >&2\nexit 1\n' "$name" >"$work/bin/$name"
        chmod +x "$work/bin/$name"
    done
}

# As the file system of another machine: sets CLONE.
make_clone() {
    CLONE=$(mktemp -d -p "$work" clone.XXXX)
    git clone --quiet --no-hardlinks . "$CLONE"
    cp "${1:-$work/signers}" "$CLONE/scripts/release-signers"
}

URL=http://127.0.0.1:$FILES_PORT
# Takes the place of the shell it is called in: its process is the one to be ended.
clean_environment() {
    exec env -C "$CLONE" -i PATH="$work/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" HOME="$work/home" \
        RELEASE_URL="$URL" DOCKER_HOST="$ENGINE" MCP_HTTP_ADDR="127.0.0.1:$PORT" DISK_FREE_FLOOR=1m "$@"
}

start() { clean_environment ./start.sh "$@" 2>&1 | tee "$CLONE/said"; }

fetch() { clean_environment scripts/fetch-release.sh "$@" 2>&1 | tee "$CLONE/said"; }

# Runs the rest, which must end with the status $1.
ends_with() {
    local expected=$1 status=0
    shift
    "$@" || status=$?
    echo "ended with $status"
    [[ $status == "$expected" ]]
}

said() { grep -q -- "$1" "$CLONE/said"; }

checksums_are_right() { (cd "$RELEASE" && sha256sum --check --strict SHA256SUMS && sha256sum -- * | grep -v SHA256SUMS | diff - SHA256SUMS); }

# What each file of a layout is called is what is in it, and nothing is missing.
images_are_layouts() {
    local archive layout digest
    for archive in "$RELEASE"/*-"$VERSION-$ARCH.tar"; do
        echo "$archive"
        layout=$(mktemp -d -p "$work")
        tar --extract --file "$archive" --directory "$layout"
        (cd "$layout/blobs/sha256" && for digest in *; do echo "$digest  $digest"; done | sha256sum --check --quiet)
        digest=$(jq -r '.manifests[0].digest | sub(":"; "/")' "$layout/index.json")
        jq -r '.config.digest, .layers[].digest | sub("^sha256:"; "")' "$layout/blobs/$digest" >"$layout/named"
        (cd "$layout/blobs/sha256" && xargs stat --format %n <"$layout/named" >/dev/null)
        jq -r '.[0] | .Config, .Layers[] | sub("^blobs/sha256/"; "")' "$layout/manifest.json" | diff - "$layout/named"
        rm -r "$layout"
    done
}

contents_are_listed() {
    local list=$RELEASE/mcp-code-sandbox-$VERSION.cdx.json
    jq -e '.bomFormat == "CycloneDX" and .specVersion == "1.6"' "$list"
    jq -r '.components[].name' "$list" | grep -qx mcp-sandbox-typescript
    jq -r '.components[].components[].purl' "$list" >"$work/purls"
    grep -q '^pkg:cargo/tokio@1\.' "$work/purls"
    grep -q '^pkg:deb/debian/bash@5\.' "$work/purls"
    grep -q '^pkg:npm/%40napi-rs/canvas@' "$work/purls"
    [[ -z ${IS_GIVEN:-} ]] || grep -q '^pkg:pypi/numpy@' "$work/purls"
}

program_is_static() {
    tar --extract --gzip --to-stdout --file "$RELEASE/mcp-code-sandbox-$VERSION-$ARCH-linux.tar.gz" \
        "mcp-code-sandbox-$VERSION-$ARCH-linux/mcp-code-sandbox" >"$work/static"
    if readelf --program-headers --wide "$work/static" | grep INTERP; then return 1; fi
}

token() { sed -n 's/^MCP_API_TOKEN=//p' "$CLONE/.env"; }

run() {
    local language=$1 code=$2
    jq -n --arg language "$language" --arg code "$code" '{jsonrpc: "2.0", id: 1, method: "tools/call",
        params: {name: "run_code", arguments: {language: $language, code: $code}}}' |
        curl --silent --fail "http://127.0.0.1:$PORT/mcp" --header "Authorization: Bearer $(token)" --data @- |
        jq -r .result.structuredContent.stdout
}

serve_from_fresh_clone() {
    local begun=$SECONDS
    make_clone
    clean_environment ./start.sh >"$CLONE/said" 2>&1 &
    SERVER=$!
    started+=("$SERVER")
    # Half a minute is what it should take; a machine that does other things may take ten times as long.
    while ((SECONDS - begun < 300)); do
        ! curl --silent --fail --output /dev/null "http://127.0.0.1:$PORT/readyz" 2>/dev/null || break
        kill -0 "$SERVER" 2>/dev/null || break
        sleep 0.2
    done
    say "Served after $((SECONDS - begun)) s"
}

it_was_in_time() { cat "$CLONE/said" && curl --silent --fail "http://127.0.0.1:$PORT/readyz"; }

programs_run() { [[ $(run shell "expr 6 '*' 7" | tee /dev/stderr) == 42 ]]; }

# Meanwhile the server is there.
other_images_come() {
    local begun=$SECONDS
    while ((SECONDS - begun < 300)); do
        [[ $(run typescript 'console.log(6 * 7)') != 42 ]] || return 0
        sleep 0.5
    done
    cat "$CLONE/said"
    return 1
}

images_are_those_of_the_release() {
    local name configuration manifest
    while read -r name configuration manifest _; do
        echo "$name"
        [[ " $configuration $manifest " == *" $(engine image inspect --format '{{.Id}}' "$name:latest") "* ]]
    done < <(grep ^mcp-sandbox- "$RELEASE/images-$VERSION-$ARCH.txt")
    # They are in the engine, and need not be on the disk twice.
    if ls "$CLONE/.build/release/$VERSION"/*.tar; then return 1; fi
}

nothing_is_fetched_again() {
    start --no-run
    said '^Ready to serve: '
    if said 'Fetching\|Loading'; then return 1; fi
}

# As after ./build.sh --fresh, while the one of the release is still there.
newer_image_stays() {
    local newer
    newer=$(engine build --quiet --label newer=yes --tag mcp-sandbox-shell - <<<"FROM mcp-sandbox-shell")
    fetch runners
    said 'mcp-sandbox-shell was built here after the release, and stays'
    [[ $(engine image inspect --format '{{.Id}}' mcp-sandbox-shell) == "$newer" ]]
    engine rmi --force --no-prune mcp-sandbox-shell
    fetch runners
    if said stays; then return 1; fi
}

# The file $1 of the release with another byte in it.
spoil() {
    cp "$RELEASE/$1" "$work/whole"
    printf X | dd of="$RELEASE/$1" bs=1 seek=5000 conv=notrunc status=none
}

repair() { mv "$work/whole" "$RELEASE/$1"; }

is_refused_for_its_checksum() {
    local name=$1
    ends_with 1 start --no-run
    said "$name is not what the release says: its SHA-256 should be $(awk -v name="$name" '$2 == name {print $1}' \
        "$RELEASE/SHA256SUMS") and is $(sha256sum "$RELEASE/$name" | cut -d ' ' -f 1)"
    if said 'Ready to serve'; then return 1; fi
}

changed_program_is_refused() {
    local name=mcp-code-sandbox-$VERSION-$ARCH-linux.tar.gz
    make_clone
    spoil "$name"
    is_refused_for_its_checksum "$name"
    [[ ! -e $CLONE/.build/release/$VERSION/mcp-code-sandbox && ! -e $CLONE/.env ]]
    repair "$name"
    fetch program
}

changed_image_is_refused() {
    local name=mcp-sandbox-shell-$VERSION-$ARCH.tar
    make_clone
    engine rmi --force mcp-sandbox-shell >/dev/null
    spoil "$name"
    is_refused_for_its_checksum "$name"
    if engine image inspect mcp-sandbox-shell; then return 1; fi
    repair "$name"
}

# Python's server sends no parts of files: they are fetched again.
what_began_is_finished() {
    local name=mcp-code-sandbox-$VERSION-$ARCH-linux.tar.gz
    make_clone
    mkdir -p "$CLONE/.build/release/$VERSION"
    head -c 100000 "$RELEASE/$name" >"$CLONE/.build/release/$VERSION/$name.part"
    fetch program
    "$CLONE/.build/release/$VERSION/mcp-code-sandbox" --version
}

signature_of_another_is_refused() {
    ssh-keygen -q -t ed25519 -N '' -C '' -f "$work/other"
    signer "$work/other" >"$work/other-signers"
    make_clone "$work/other-signers"
    ends_with 1 start --no-run
    said 'is not signed by a key of scripts/release-signers. Nothing of it is used'
    [[ ! -e $CLONE/.build/release/$VERSION/mcp-code-sandbox && ! -e $CLONE/.env ]]
}

missing_signature_is_refused() {
    make_clone
    mv "$RELEASE/SHA256SUMS.sig" "$work/signature"
    ends_with 1 fetch program
    said 'has no signature, and scripts/release-signers asks for one'
    : >"$CLONE/scripts/release-signers"
    fetch program
    said 'no signature is checked'
    mv "$work/signature" "$RELEASE/SHA256SUMS.sig"
}

directory_does_as_well() {
    make_clone
    URL=$RELEASE start --no-run
    said '^Ready to serve: '
    engine image inspect mcp-sandbox-shell >/dev/null
}

no_release_is_told_soon() {
    local begun=$SECONDS
    make_clone
    URL=http://127.0.0.1:1 ends_with 3 fetch program
    URL="http://127.0.0.1:$FILES_PORT/other" ends_with 3 fetch program
    said 404
    # There is no way out of here.
    URL=http://198.51.100.1 ends_with 3 fetch program
    URL="" ends_with 3 fetch program
    said 'RELEASE_URL is not set'
    ((SECONDS - begun < 30))
}

other_sources_are_built() {
    make_clone
    echo >>"$CLONE/Cargo.toml"
    ends_with 3 fetch program
    said 'is not taken: Cargo.toml is not committed'
    git -C "$CLONE" -c user.name=t -c user.email=t commit --quiet --all --message "Change it"
    ends_with 3 fetch program
    said 'was not made from this commit'
}

ip link set lo up
if [[ -n ${1:-} ]]; then
    IS_GIVEN=1
    take_release "$1"
else
    make_release
fi
stand_in_for_compilers
start_engine
serve_files
check "the checksums are those of all files" checksums_are_right
check "the images are layouts that name what they hold" images_are_layouts
check "what is in it is listed" contents_are_listed
[[ -z ${IS_GIVEN:-} ]] || check "the program is static" program_is_static
serve_from_fresh_clone
check "a fresh clone serves in time" it_was_in_time
check "programs run" programs_run
check "the other images come beside the server" other_images_come
check "the images are those of the release" images_are_those_of_the_release
end "$SERVER"
end "$FILES_SERVER"
check "a second start fetches nothing" nothing_is_fetched_again
serve_files
check "an image that was built here later stays" newer_image_stays
check "a program that was changed is refused" changed_program_is_refused
check "an image that was changed is refused" changed_image_is_refused
check "what began is finished" what_began_is_finished
check "the signature of another is refused" signature_of_another_is_refused
check "a missing signature is refused" missing_signature_is_refused
check "a directory does as well" directory_does_as_well
check "no release is told soon" no_release_is_told_soon
check "other sources are built" other_sources_are_built
echo "$passed passed, $failed failed"
((failed == 0))
