#!/usr/bin/env bash
# Prints the ConfigMap that makes an image a runner of a cluster, for EXECUTOR=kubernetes: the API of a cluster tells no
# labels of images. The server sees it as soon as it is there:
#
#   scripts/runner-configmap.sh registry.example/mcp-sandbox-python:1 | kubectl apply --namespace mcp-code-sandbox --filename -
#
#   scripts/runner-configmap.sh IMAGE [REFERENCE]
#
# IMAGE      one that Docker has here, or else one of a registry, for which skopeo is needed
# REFERENCE  what nodes are to pull, which ends in a digest: …@sha256:…. Without it, that of IMAGE; or its id, if it is in no
#            registry, and then all nodes must have it
set -euo pipefail

usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; }

die() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# local_image IMAGE: its configuration, with where it is.
local_image() {
    docker image inspect "$1" | jq '.[0] | {config: .Config, reference: ((.RepoDigests // [])[0] // .Id)}'
}

# registry_image IMAGE: the same.
registry_image() {
    local digest name
    digest=$(skopeo inspect --format '{{.Digest}}' "docker://$1")
    name=${1%@*}
    # A port is before the last slash, a tag after it.
    [[ ${name##*/} != *:* ]] || name=${name%:*}
    skopeo inspect --config "docker://$1" | jq --arg reference "$name@$digest" '{config: .config, reference: $reference}'
}

has_docker() { command -v docker >/dev/null && docker image inspect "$1" >/dev/null 2>&1; }

# JSON is YAML, and kubectl takes both.
config_map() {
    jq --arg reference "$1" '
        (.config.Labels // {}) as $labels
        | (if $reference == "" then .reference else $reference end) as $image
        | {
            apiVersion: "v1",
            kind: "ConfigMap",
            metadata: {
                name: ("runner-" + ($labels["sandbox.language"] | ascii_downcase | gsub("\\+"; "p") | gsub("#"; "sharp"))),
                labels: {"sandbox.runner": "true"}
            },
            data: ({
                image: $image,
                command: (((.config.Entrypoint // []) + (.config.Cmd // [])) | tojson),
                env: ((.config.Env // []) | tojson)
            } + ($labels | with_entries(select((.key | startswith("sandbox.")) and .key != "sandbox.runner"))))
        }'
}

case ${1:-} in
    -h | --help)
        usage
        exit
        ;;
    "") usage >&2 && exit 2 ;;
esac
image=$1 reference=${2:-}
command -v jq >/dev/null || die "this needs jq"
[[ ! $reference || $reference =~ @sha256:[0-9a-f]{64}$ ]] || die "REFERENCE must end in @sha256: and a digest"
if has_docker "$image"; then
    inspected=$(local_image "$image")
elif command -v skopeo >/dev/null; then
    inspected=$(registry_image "$image")
else
    die "Docker has no image $image, and for one of a registry this needs skopeo"
fi
[[ $(jq -r '.config.Labels["sandbox.runner"] // ""' <<<"$inspected") == true && $(jq -r '.config.Labels["sandbox.language"] // ""' <<<"$inspected") ]] ||
    die "$image is no runner: it has no labels sandbox.runner and sandbox.language (docs/languages.md)"
[[ $reference || $(jq -r .reference <<<"$inspected") == *@* ]] ||
    printf 'note: %s is in no registry that is known here, so every node must have it already\n' "$image" >&2
config_map "$reference" <<<"$inspected"
