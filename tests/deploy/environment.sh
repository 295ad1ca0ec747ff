#!/usr/bin/env bash
# Sourced: an environment of Python with what Debian does not have, which is Traefik and Helm.
# shellcheck disable=SC2034 # used by those that source it

ENVIRONMENT=.build/tools/deploy

need_environment() {
    ! cmp -s tests/deploy/requirements.txt "$ENVIRONMENT/installed" || return 0
    rm -rf "$ENVIRONMENT"
    python3 -m venv "$ENVIRONMENT"
    "$ENVIRONMENT/bin/pip" install --quiet --require-hashes --requirement tests/deploy/requirements.txt
    cp tests/deploy/requirements.txt "$ENVIRONMENT/installed"
}
