#!/usr/bin/env bash
# Makes a release of this commit: a static program, the images, a list of what is in them, checksums and a signature.
#
#   scripts/release.sh [DIR]               into DIR, which is .build/release-<version> when it is left out
#   scripts/release.sh --unsigned [DIR]    without a signature
#
# RELEASE_KEY is the private key of ssh-keygen that signs; its public half belongs into scripts/release-signers.
# RELEASE_PROGRAM is a program that was built before, which is taken as it is, and RELEASE_RUNNERS the images to run
# programs with, if not shell, python and typescript: the first one is what a server starts with, and the others follow
# in this order.
#
# The same commit, compiler and C library give the same program, wherever it is built, and with the same Debian the same
# images of the server and the firewall. Runner images are those that the engine has or makes today, for the
# architecture of this machine; the same image gives the same archive.
#
# What start.sh fetches (scripts/fetch-release.sh), all of it named in SHA256SUMS, which is what is signed:
#
#   mcp-code-sandbox-<version>-<arch>-linux.tar.gz    the program, with what belongs beside it
#   <image>-<version>-<arch>.tar                      an image, for docker load, podman load and skopeo
#   images-<version>-<arch>.txt                       name and digests of each image
#   sources-<version>.txt                             what the release was made from
#   mcp-code-sandbox-<version>.cdx.json               what is in it, as CycloneDX
set -euo pipefail
cd "$(dirname "$0")/.."

read -ra RUNNERS <<<"${RELEASE_RUNNERS:-shell python typescript}"
ARCH=$(uname -m)
# The compiler of the Dockerfile, so that there is one of them.
RUST=$(sed -n 's/^ARG RUST=//p' Dockerfile)

# shellcheck source=scripts/find-rust.sh
. scripts/find-rust.sh
# shellcheck source=scripts/release-facts.sh
. scripts/release-facts.sh

say() { printf '%s\n' "$*" >&2; }

die() {
    say "error: $*"
    exit 1
}

usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' scripts/release.sh; }

# As the same bytes, whoever makes it, wherever and whenever.
archive() { tar --sort=name --format=gnu --owner=0 --group=0 --numeric-owner --mode=go=u,go-w --mtime="@$SOURCE_DATE_EPOCH" "$@"; }

# What an image was made of stays, for the next one.
clean_up() {
    rm -rf "$work"
    ((${#NAMED[@]} == 0)) || docker rmi --no-prune "${NAMED[@]}" >/dev/null 2>&1 || true
}

need_tools() {
    local tool
    for tool in jq docker git python3 sha256sum; do
        command -v "$tool" >/dev/null || die "$tool is missing: install it and start again"
    done
    [[ -n $UNSIGNED ]] || [[ -r ${RELEASE_KEY:-} ]] ||
        die "RELEASE_KEY names no key that can be read. Set it to one of ssh-keygen, or give --unsigned"
}

need_rust() {
    if command -v rustup >/dev/null; then export RUSTUP_TOOLCHAIN=$RUST; fi
    find_rust
    [[ $(rustc --version) == "rustc $RUST "* ]] ||
        die "releases are built by Rust $RUST. Get it by: rustup toolchain install $RUST --profile minimal"
}

# The paths of this machine would be in the program's messages.
without_paths() {
    local directory
    while IFS= read -r directory; do
        printf '%s\n' "--remap-path-prefix=$directory=/crates"
    done < <(cargo metadata --locked --format-version 1 --filter-platform "$1" |
        jq -r '[.packages[] | select(.source) | .manifest_path | split("/")[:-2] | join("/")] | unique[]')
    printf '%s\n' "--remap-path-prefix=$(rustc --print sysroot)/lib/rustlib/src/rust=/rustc/$(rustc --version --verbose |
        sed -n 's/^commit-hash: //p')" "--remap-path-prefix=$PWD=/mcp-code-sandbox"
}

# For the target $1: sets PROGRAM.
build_program() {
    local target=$1 flags
    mapfile -t flags < <(echo -Ctarget-feature=+crt-static && without_paths "$target")
    say "Building the program for $target"
    CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\x1f' && printf '%s' "${flags[*]}") SOURCE_COMMIT=$COMMIT \
        cargo build --release --locked --bin mcp-code-sandbox --target "$target" --target-dir "$TARGET"
    PROGRAM=$TARGET/$target/release/mcp-code-sandbox
    ! grep -qF -e "$PWD" -e "${CARGO_HOME:-$HOME/.cargo}/" "$PROGRAM" ||
        die "$PROGRAM has paths of this machine in it: see without_paths in scripts/release.sh"
}

pack_program() {
    local arch=$1 name
    name=mcp-code-sandbox-$VERSION-$arch-linux
    install -D "$PROGRAM" "$work/$name/mcp-code-sandbox"
    install -m 644 LICENSE .env.example deploy/mcp-code-sandbox.service "$work/$name"
    archive --create --directory "$work" "$name" | gzip -n >"$DIR/$name.tar.gz"
}

# One for another architecture, where its compiler and C library are there.
build_for_arm64() {
    local target=aarch64-unknown-linux-gnu linker=aarch64-linux-gnu-gcc
    [[ $ARCH == x86_64 ]] || return 0
    if ! command -v "$linker" >/dev/null || [[ ! -d $(rustc --print sysroot)/lib/rustlib/$target ]]; then
        say "note: there is no program for arm64 in it: that needs gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and" \
            "rustup target add --toolchain $RUST $target"
        return 0
    fi
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$linker build_program "$target"
    pack_program aarch64
}

build_programs() {
    if [[ -n ${RELEASE_PROGRAM:-} ]]; then
        PROGRAM=$RELEASE_PROGRAM
        pack_program "$ARCH"
        return
    fi
    need_rust
    build_for_arm64
    build_program "$ARCH-unknown-linux-gnu"
    pack_program "$ARCH"
}

# build_image WHAT ARGUMENT...: under a name of this release's own, which goes at its end. What is called latest here stays
# as it is, and so does the same image under another name, which would go with an image that is removed by its number.
build_image() {
    NAMED+=("mcp-release-$$:$1")
    docker build --quiet --tag "${NAMED[-1]}" "${@:2}" >"$work/build.log" 2>&1 || {
        cat "$work/build.log" >&2
        die "an image could not be built"
    }
}

build_images() {
    local runner
    docker buildx version >/dev/null 2>&1 || export DOCKER_BUILDKIT=0
    ./build.sh "${RUNNERS[@]}"
    install -D "$PROGRAM" "$work/context/program"
    build_image server --build-arg BINARY=program --file Dockerfile "$work/context"
    pack_image mcp-code-sandbox "${NAMED[-1]}" "$SOURCE_DATE_EPOCH"
    build_image firewall --file deploy/firewall/Dockerfile .
    pack_image mcp-code-sandbox-firewall "${NAMED[-1]}" "$SOURCE_DATE_EPOCH"
    for runner in "${RUNNERS[@]}"; do pack_image "mcp-sandbox-$runner" "mcp-sandbox-$runner:latest"; done
}

# As the archive of an image that is called $1, from the engine's $2, with what is not of its base as old as $3.
pack_image() {
    local name=$1 file=$1-$VERSION-$ARCH.tar digests
    say "Packing $name"
    digests=$(scripts/release-image.sh "$name:latest" "$2" "$work/image" "$work/layers" ${3:+"$3"})
    archive --create --directory "$work/image" . >"$DIR/$file"
    rm -r "$work/image"
    printf '%s %s\n' "$name" "$digests" >>"$DIR/images-$VERSION-$ARCH.txt"
    IMAGES+=("$name=$2")
}

sign() {
    (cd "$DIR" && sha256sum -- *) >"$work/SHA256SUMS"
    mv "$work/SHA256SUMS" "$DIR"
    [[ -z $UNSIGNED ]] || return 0
    ssh-keygen -q -Y sign -n mcp-code-sandbox -f "$RELEASE_KEY" "$DIR/SHA256SUMS"
}

main() {
    local changed
    UNSIGNED=""
    case ${1:-} in
        --unsigned) UNSIGNED=1 && shift ;;
        -h | --help) usage && return ;;
        -*) usage >&2 && exit 2 ;;
    esac
    VERSION=$(version)
    DIR=${1:-.build/release-$VERSION}
    TARGET=$PWD/.build/release-target
    COMMIT=$(git rev-parse --short=12 HEAD)
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
    export SOURCE_DATE_EPOCH
    IMAGES=() NAMED=()
    need_tools
    if changed=$(changed_sources) && [[ -z ${RELEASE_PROGRAM:-} ]]; then
        die "$changed is not committed, and a release is one of a commit"
    fi
    rm -rf "$DIR"
    mkdir -p "$DIR"
    work=$(mktemp -d)
    trap clean_up EXIT
    sources >"$DIR/sources-$VERSION.txt"
    build_programs
    build_images
    say "Listing what is in it"
    scripts/release-sbom.sh "$ARCH-unknown-linux-gnu" "${IMAGES[@]}" >"$DIR/mcp-code-sandbox-$VERSION.cdx.json"
    sign
    say "Made $DIR:"
    (cd "$DIR" && du -h --apparent-size -- *) >&2
}

main "$@"
