#!/usr/bin/env bash
# Bundles what the pages are made of, so that a browser fetches few files and whoever builds the server needs no Node. The
# result is in the repository. Needs npm, and the registry when packages have changed.
#
#   static/build.sh            into static/bundle
#   static/build.sh --check    says which files there are not what the sources give, and fails
set -euo pipefail
cd "$(dirname "$0")"
export LC_ALL=C

usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' build.sh; }

installed() { cmp -s package-lock.json node_modules/installed; }

install_packages() {
    npm ci --silent --ignore-scripts
    # esbuild's program comes from its own package.
    node node_modules/esbuild/install.js
    cp package-lock.json node_modules/installed
}

esbuild() { node_modules/.bin/esbuild --bundle --target=es2022 --charset=utf8 --legal-comments=none --log-level=warning "$@"; }

# Not minified, to be read in a browser too. The editor is a file of its own: it changes with its packages only.
build_pages() {
    esbuild app/main.js admin/main.js style/page.css style/admin.css style/login.css \
        --format=esm --external:../editor/editor.js --outbase=. --outdir="$1"
}

build_editor() {
    esbuild editor/editor.js --minify --format=esm --outfile="$1/editor/editor.js" \
        --banner:js="// CodeMirror and its parts, made by static/build.sh; their licences are in LICENSES.txt."
    # Whatever is in the bundle, by what npm says was installed for it.
    local licence package
    for licence in node_modules/{@codemirror,@lezer,@marijn,crelt,style-mod,w3c-keyname}{,/*}/LICENSE*; do
        [[ -e $licence ]] || continue
        package=${licence#node_modules/}
        printf '=== %s\n\n%s\n\n' "${package%/*}" "$(cat "$licence")"
    done >"$1/editor/LICENSES.txt"
}

check() {
    diff -rq bundle "$1" >&2 || {
        echo "static/bundle is not what its sources give. Run static/build.sh, and commit what it writes" >&2
        exit 1
    }
}

replace() {
    rm -rf bundle
    mkdir bundle
    cp -r "$1"/. bundle
}

case ${1:-} in
    "") then=replace ;;
    --check) then=check ;;
    *) usage >&2 && exit 2 ;;
esac
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
installed || install_packages
build_pages "$built"
build_editor "$built"
"$then" "$built"
