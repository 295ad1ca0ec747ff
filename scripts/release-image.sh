#!/usr/bin/env bash
# Lays an image out for everybody: scripts/release-image.sh NAME:TAG IMAGE DIR LAYERS [TIME]
#
# DIR becomes an OCI image layout of the engine's IMAGE, which skopeo, podman and containerd read, with the manifest.json
# beside it by which every Docker loads it as NAME:TAG. Compressed layers are kept in LAYERS for the next image.
# Prints the digests of the configuration and of the manifest, of which one is what an engine knows the image by, and
# when it was made.
#
# The configuration is the engine's, byte by byte. Tools that convert images write their own, in which there is no
# HEALTHCHECK, and by which an engine does not see that it has the image already. Only with TIME, in seconds, it is
# another one: what is not of the base is all as old as that, and another build of the same gives the same bytes, also one
# that takes parts of an older one from the builder's cache.
set -euo pipefail

# What images of a release begin with: scripts/base-images.sh.
BASE=debian:trixie-slim

die() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

digest() { sha256sum "$1" | cut -d ' ' -f 1; }

# Moves a file among the blobs, and describes it as something of the media type $2.
blob() {
    local hex
    hex=$(digest "$1")
    mv "$1" "$dir/blobs/sha256/$hex"
    jq -cn --arg type "$2" --arg digest "sha256:$hex" --argjson size "$(stat -c %s "$dir/blobs/sha256/$hex")" \
        '{mediaType: $type, digest: $digest, size: $size}'
}

as_old_as() {
    python3 -c '
import sys, tarfile

layer = tarfile.open(fileobj=sys.stdin.buffer, mode="r|")
with tarfile.open(fileobj=sys.stdout.buffer, mode="w|", format=tarfile.PAX_FORMAT) as out:
    for member in layer:
        member.mtime = int(sys.argv[1])
        for name in ("mtime", "atime", "ctime"):
            member.pax_headers.pop(name, None)
        out.addfile(member, layer.extractfile(member) if member.isreg() else None)' "$1"
}

# Takes what only this build has out of what the engine saved: times, and the containers of the classic builder. Layers
# of the base stay, since other images share them.
settle() {
    local time=$1 base path id number=0 ids=() of_base=0
    base=$(docker image inspect --format '{{join .RootFS.Layers "\n"}}' "$BASE")
    while IFS= read -r path; do
        id=${unpacked[number]}
        if grep -qxF "$id" <<<"$base"; then
            of_base=$((of_base + 1))
        else
            gzip -dcf "$saved/$path" | as_old_as "$time" >"$saved/settled"
            mv "$saved/settled" "$saved/$path"
            id=sha256:$(digest "$saved/$path")
        fi
        ids+=("$id")
        number=$((number + 1))
    done < <(jq -r '.[0].Layers[]' "$saved/manifest.json")
    jq -c --arg time "$(date --utc --date "@$time" +%FT%TZ)" --argjson of_base "$of_base" '
        def settled: reduce .[] as $step ({base: $of_base, steps: []};
            if .base == 0 then .steps += [$step + {created: $time}]
            else .steps += [$step] | if $step.empty_layer then . else .base -= 1 end end) | .steps;
        .created = $time | .history |= settled | .rootfs.diff_ids = $ARGS.positional
        | del(.container, .container_config, .config.Image)' "$dir/config" --args "${ids[@]}" >"$saved/config"
    mv "$saved/config" "$dir/config"
    unpacked=("${ids[@]}")
}

# Layer $1 of the archive, which is $2 when it is unpacked. Engines that keep layers compressed save them so.
layer() {
    local file=$saved/$1 kept=$layers/$2
    if [[ ! -e $kept ]]; then
        case $(od -An -N4 -tx1 "$file") in
            ' 1f 8b '*) cp -L "$file" "$kept.part" ;;
            ' 28 b5 2f fd') die "a layer is compressed by zstd, which older engines do not load" ;;
            *) gzip -n <"$file" >"$kept.part" ;;
        esac
        mv "$kept.part" "$kept"
    fi
    ln "$kept" "$dir/layer"
    blob "$dir/layer" application/vnd.oci.image.layer.v1.tar+gzip
}

main() {
    local name=$1 image=$2 time=${5:-} config described=() number=0 path unpacked manifest created
    dir=$3 layers=$4
    saved=$(mktemp -d -p "$(dirname "$layers")")
    trap 'rm -rf "$saved"' EXIT
    mkdir -p "$dir/blobs/sha256" "$layers"
    docker save "$image" | tar --extract --directory "$saved"
    cp "$saved/$(jq -r '.[0].Config' "$saved/manifest.json")" "$dir/config"
    mapfile -t unpacked < <(jq -r '.rootfs.diff_ids[]' "$dir/config")
    [[ -z $time ]] || settle "$time"
    created=$(jq -r .created "$dir/config")
    while IFS= read -r path; do
        described+=("$(layer "$path" "${unpacked[number]#sha256:}")")
        number=$((number + 1))
    done < <(jq -r '.[0].Layers[]' "$saved/manifest.json")
    ((number == ${#unpacked[@]})) || die "$image has ${#unpacked[@]} layers, and the engine saved $number"
    config=$(blob "$dir/config" application/vnd.oci.image.config.v1+json)
    printf '%s\n' "${described[@]}" | jq -cs --argjson config "$config" \
        '{schemaVersion: 2, mediaType: "application/vnd.oci.image.manifest.v1+json", config: $config, layers: .}' >"$dir/manifest"
    jq -c --arg name "$name" 'def path: .digest | sub(":"; "/") | "blobs/" + .;
        [{Config: (.config | path), RepoTags: [$name], Layers: [.layers[] | path]}]' "$dir/manifest" >"$dir/manifest.json"
    manifest=$(blob "$dir/manifest" application/vnd.oci.image.manifest.v1+json)
    jq -c --arg name "$name" '{schemaVersion: 2, mediaType: "application/vnd.oci.image.index.v1+json", manifests: [. + {annotations:
        {"io.containerd.image.name": "docker.io/library/\($name)", "org.opencontainers.image.ref.name": ($name | split(":")[1])}}]}' \
        <<<"$manifest" >"$dir/index.json"
    echo '{"imageLayoutVersion":"1.0.0"}' >"$dir/oci-layout"
    printf '%s %s %s\n' "$(jq -r .digest <<<"$config")" "$(jq -r .digest <<<"$manifest")" "$created"
}

main "$@"
