#!/usr/bin/env bash
# Finds cargo, in a version that the project takes: sourced by start.sh and test.sh, which have `die`.

find_rust() {
    local home have need
    # shellcheck source=/dev/null
    if [[ -r ${CARGO_HOME:-$HOME/.cargo}/env ]]; then . "${CARGO_HOME:-$HOME/.cargo}/env"; fi
    # Root under sudo uses the compiler of the user who called, and keeps what it downloads to itself.
    if ! command -v cargo >/dev/null && [[ $EUID -eq 0 && -n ${SUDO_USER:-} ]]; then
        home=$(getent passwd "$SUDO_USER" | cut -d: -f6)
        export PATH=$PATH:$home/.cargo/bin RUSTUP_HOME=${RUSTUP_HOME:-$home/.rustup}
    fi
    command -v cargo >/dev/null || die "Rust is missing. Get it from https://rustup.rs and start again"
    have=$(rustc --version) || die "rustc does not run: see above"
    have=$(cut -d' ' -f2 <<<"$have")
    need=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    printf '%s\n' "$need" "$have" | sort --check=quiet --version-sort ||
        die "Rust is $have and must be $need or newer. Get it by: rustup update stable (https://rustup.rs)"
}
