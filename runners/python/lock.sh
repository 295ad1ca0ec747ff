#!/usr/bin/env bash
# Resolves slim.in into slim.txt, and slim.in with full.in into full.txt: every package pinned, with the hashes of the
# two wheels that an image can need (x86-64 and aarch64). Run it to update the libraries; needs python3 with venv.
set -euo pipefail
cd "$(dirname "$0")"

PYTHON=3.13 # that of the base image
GLIBC=(17 24 26 27 28 31 34)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
pip=("$work/venv/bin/python" -m pip --quiet --disable-pip-version-check)
"${pip[@]}" install --upgrade pip uv

# Pins for the lists $2..., in file $1.
resolve() {
    "$work/venv/bin/uv" pip compile --quiet --python-platform x86_64-manylinux_2_34 --python-version "$PYTHON" \
        --only-binary :all: --no-annotate --no-header --no-emit-index-url --output-file "$@"
}

download() { # pin, machine
    local platforms=() minor
    for minor in "${GLIBC[@]}"; do platforms+=(--platform "manylinux_2_${minor}_$2"); done
    platforms+=(--platform "manylinux2014_$2")
    "${pip[@]}" download --no-deps --only-binary :all: --python-version "$PYTHON" "${platforms[@]}" \
        --dest "$work/wheels" "$1"
}

# Hashes for pin $1, as pip reads them.
hashes() {
    mkdir "$work/wheels"
    for machine in x86_64 aarch64; do download "$1" "$machine"; done
    printf '%s' "$1"
    sha256sum "$work"/wheels/*.whl | awk '{ printf " \\\n    --hash=sha256:%s", $1 }'
    printf '\n'
    rm -r "$work/wheels"
}

resolve "$work/full" slim.in full.in
# Of the same versions: what a program finds in the one image it finds in the other.
resolve "$work/slim" --constraint "$work/full" slim.in

echo '# Made by lock.sh from slim.in and full.in; do not edit.' >full.txt
while read -r pin; do hashes "$pin" >>full.txt; done <"$work/full"

echo '# Made by lock.sh from slim.in, with the versions of full.txt; do not edit.' >slim.txt
while read -r pin; do awk -v pin="$pin" '/^[^ ]/ { on = $1 == pin } on' full.txt >>slim.txt; done <"$work/slim"
