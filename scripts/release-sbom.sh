#!/usr/bin/env bash
# Prints what is in a release, as CycloneDX: scripts/release-sbom.sh TARGET NAME=IMAGE...
#
# These are the crates that the program for TARGET is made of, and of each image the packages of Debian, Python and npm
# that are found in it. The time is SOURCE_DATE_EPOCH's.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=scripts/release-facts.sh
. scripts/release-facts.sh

# Lines of kind, name, version and licence, apart by tabs, as components; what has a line twice is there once.
components() {
    sort -u | jq -Rn '[inputs | split("\t") | . as [$kind, $name, $version, $licence]
        | {type: "library", name: $name, version: $version, purl: ("pkg:\($kind)/" +
            ($name | gsub("@"; "%40")) + "@" + ($version | @uri))}
        + if ($licence // "") == "" then {} else {licenses: [{expression: $licence}]} end]'
}

# Without those that are compiled and not linked. A licence with a slash is from before there were expressions.
crates() {
    cargo tree --locked --edges normal,no-proc-macro --prefix none --target "$1" --format $'{p}\t{l}' |
        sed -nE 's/ \(\*\)$//; s/^([^ ]+) v([^ \t]+)\t(.*)$/cargo\t\1\t\2\t\3/p' | sed -E 's| ?/ ?| OR |g'
}

inside() {
    local image=$1
    shift
    docker run --rm --network none --read-only --entrypoint "$1" "$image" "${@:2}"
}

debian_packages() {
    # shellcheck disable=SC2016 # for dpkg-query
    inside "$1" dpkg-query --show --showformat 'deb/debian\t${Package}\t${Version}\n'
}

python_packages() {
    inside "$1" python3 -c 'import importlib.metadata as metadata
for package in metadata.distributions(): print("pypi", package.name.lower(), package.version, sep="\t")'
}

# Whose package.json has no version is a part of another one.
npm_packages() {
    inside "$1" find /opt/node_modules -name package.json -exec cat {} ';' |
        jq -r 'select((.name | type) == "string" and (.version | type) == "string") | "npm\t\(.name)\t\(.version)"'
    printf 'npm\tbun\t%s\n' "$(inside "$1" bun --version)"
}

packages() {
    debian_packages "$2"
    case $1 in
        mcp-sandbox-python) python_packages "$2" ;;
        mcp-sandbox-typescript) npm_packages "$2" ;;
    esac
}

main() {
    local target=$1 image
    shift
    {
        crates "$target" | components | jq --arg rust "$(rustc --version)" --arg libc "$(getconf GNU_LIBC_VERSION)" \
            '{type: "application", name: "mcp-code-sandbox", components: .,
                properties: [{name: "rustc", value: $rust}, {name: "libc", value: $libc}]}'
        for image in "$@"; do
            packages "${image%%=*}" "${image#*=}" | components |
                jq --arg name "${image%%=*}" '{type: "container", name: $name, components: .}'
        done
    } | jq -s --arg version "$(version)" --arg time "$(date --utc --date "@$SOURCE_DATE_EPOCH" +%FT%TZ)" '
        {bomFormat: "CycloneDX", specVersion: "1.6", version: 1,
            metadata: {timestamp: $time, component: {type: "application", name: "mcp-code-sandbox", version: $version}},
            components: map({type, name, version: $version} + .)}'
}

main "$@"
