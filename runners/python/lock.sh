#!/usr/bin/env bash
# Resolves requirements.in into requirements.txt: every package pinned, with the hashes of the two wheels
# that an image can need (x86-64 and aarch64). Run it to update the libraries; needs python3 with venv.
set -euo pipefail
cd "$(dirname "$0")"

PYTHON=3.13 # that of the base image
GLIBC=(17 24 26 27 28 31 34)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
pip=("$work/venv/bin/python" -m pip --quiet --disable-pip-version-check)
"${pip[@]}" install --upgrade pip uv

"$work/venv/bin/uv" pip compile --quiet --python-platform x86_64-manylinux_2_34 --python-version "$PYTHON" \
    --only-binary :all: --no-annotate --no-header --no-emit-index-url --output-file "$work/pins.txt" requirements.in

download() { # pin, machine
    local platforms=() minor
    for minor in "${GLIBC[@]}"; do platforms+=(--platform "manylinux_2_${minor}_$2"); done
    platforms+=(--platform "manylinux2014_$2")
    "${pip[@]}" download --no-deps --only-binary :all: --python-version "$PYTHON" "${platforms[@]}" \
        --dest "$work/wheels" "$1"
}

printf '# Made by lock.sh from requirements.in; do not edit.\n' >requirements.txt
while read -r pin; do
    mkdir "$work/wheels"
    for machine in x86_64 aarch64; do download "$pin" "$machine"; done
    {
        printf '%s' "$pin"
        sha256sum "$work"/wheels/*.whl | awk '{ printf " \\\n    --hash=sha256:%s", $1 }'
        printf '\n'
    } >>requirements.txt
    rm -r "$work/wheels"
done <"$work/pins.txt"
