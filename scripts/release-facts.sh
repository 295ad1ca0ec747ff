#!/usr/bin/env bash
# What a release and a clone have to agree on: sourced by release.sh, which makes one, and fetch-release.sh, which
# takes it.

# What programs and images are made of. Whoever changes any of it builds.
SOURCES=(Cargo.lock Cargo.toml Dockerfile build.rs deploy/firewall runners scripts/firewall.sh src static)

version() { sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml; }

# What is in the commit, file or directory by name and digest.
sources() { git ls-tree HEAD -- "${SOURCES[@]}"; }

# What differs from the commit, in one line; fails when there is nothing.
changed_sources() { git status --porcelain -- "${SOURCES[@]}" | cut -c4- | paste -sd ' ' | grep .; }
