#!/usr/bin/env bash
# Takes parts of the release of this version: scripts/fetch-release.sh PART...
#
#   program    becomes .build/release/<version>/mcp-code-sandbox
#   server     the images for docker-compose.yml, into the engine
#   runner     the smallest image that runs programs, into the engine
#   runners    all of these
#
# RELEASE_URL is the directory or the address where the files of scripts/release.sh are. Without it, a clone of a
# repository on github.com takes those of the repository's release. Nothing is used before its checksum is found right,
# and where scripts/release-signers has a key, the checksums have to be signed by it. What was fetched is not fetched
# again, and goes on where it ended. With IMAGE_PREFIX and IMAGE_TAG images also get the names that Compose uses.
#
# Ends with 3 where there is no release to be taken, and everything has to be built; with 1 when something is wrong
# with it.
set -euo pipefail
cd "$(dirname "$0")/.."

SIGNERS=scripts/release-signers
NO_RELEASE=3

# shellcheck source=scripts/release-facts.sh
. scripts/release-facts.sh

say() { printf '%s\n' "$*" >&2; }

die() {
    say "error: $*"
    exit 1
}

no_release() {
    say "$*"
    exit "$NO_RELEASE"
}

release_url() {
    local url=${RELEASE_URL:-} origin
    if [[ -n $url ]]; then
        url=${url#file://}
        [[ ! -d $url ]] || url=$(realpath "$url")
        printf '%s' "${url%/}"
        return
    fi
    origin=$(git remote get-url origin 2>/dev/null) || return 0
    [[ ${origin%.git} =~ ^(https://|ssh://git@|git@)github\.com[:/]([^/]+/[^/]+)$ ]] || return 0
    printf 'https://github.com/%s/releases/download/v%s' "${BASH_REMATCH[2]}" "$VERSION"
}

# curl, for those who wait: five seconds for an answer, and half a minute for one that stops to come. What begins as https
# stays so.
get() {
    curl --fail --silent --show-error --location --proto "=https,${URL%%:*}" --connect-timeout 5 --speed-limit 1024 \
        --speed-time 30 "$@"
}

size_of() {
    local bytes
    if [[ $URL == /* ]]; then
        bytes=$(stat -L -c %s "$URL/$1" 2>/dev/null)
    else
        bytes=$(get --head "$URL/$1" 2>/dev/null | tr -d '\r' | sed -n 's/^content-length: //Ip' | tail -n 1)
    fi
    [[ -z $bytes ]] || printf ', %s' "$(numfmt --to=si --suffix=B "$bytes")"
}

# Fetches the file $1 to $2, or what is missing of it there.
download() {
    local from=$URL/$1 to=$2 status=0
    if [[ $URL == /* ]]; then
        cp "$from" "$to"
        return
    fi
    if [[ -e $to ]]; then
        get --continue-at - --output "$to" "$from" 2>/dev/null || status=$?
        # Not every server sends parts of a file, and none sends what is behind its end.
        ((status == 22 || status == 33)) || return "$status"
        rm "$to"
    fi
    get --retry 3 --output "$to" "$from"
}

digest() { sha256sum "$1" | cut -d ' ' -f 1; }

expected_digest() { awk -v name="$1" '$2 == name {print $1}' "$SUMS"; }

could_not_be_fetched() {
    die "$1 could not be fetched from $URL. Start again to go on with it, or build everything: ./start.sh --build"
}

# Makes sure that the file $1 of the release is in DIRECTORY, and is what it should be.
take_file() {
    local name=$1 file=$DIRECTORY/$1 expected found
    expected=$(expected_digest "$name")
    [[ ! -e $file || $(digest "$file") != "$expected" ]] || return 0
    [[ $name == *.txt ]] || say "Fetching $name$(size_of "$name")"
    [[ ! -e $file.part ]] || download "$name" "$file.part" || could_not_be_fetched "$name"
    # It may have begun as something else.
    [[ -e $file.part && $(digest "$file.part") == "$expected" ]] ||
        { rm -f "$file.part" && download "$name" "$file.part"; } || could_not_be_fetched "$name"
    found=$(digest "$file.part")
    if [[ $found != "$expected" ]]; then
        # By the next start the release may be in order.
        rm "$file.part" "$SUMS"
        die "$URL/$name is not what the release says: its SHA-256 should be $expected and is $found. Nothing of it is" \
            "used. Start again, or build everything: ./start.sh --build"
    fi
    mv "$file.part" "$file"
}

check_signature() {
    local sums=$1
    if ! grep -q '^[^#]' "$SIGNERS"; then
        say "note: no signature is checked, since $SIGNERS has no key"
        return
    fi
    command -v ssh-keygen >/dev/null || die "ssh-keygen is missing, which checks the signature of the release." \
        "Install it (on Debian: sudo apt-get install -y openssh-client)"
    rm -f "$sums.sig"
    download SHA256SUMS.sig "$sums.sig" 2>/dev/null ||
        die "the release at $URL has no signature, and $SIGNERS asks for one. Nothing of it is used"
    ssh-keygen -q -Y verify -f "$SIGNERS" -I mcp-code-sandbox -n mcp-code-sandbox -s "$sums.sig" <"$sums" >/dev/null 2>&1 ||
        die "the release at $URL is not signed by a key of $SIGNERS. Nothing of it is used"
}

take_sums() {
    local reason
    [[ ! -e $SUMS ]] || return 0
    [[ -n $URL ]] || no_release "There is no release to take: RELEASE_URL is not set, and this is no clone from github.com"
    rm -f "$SUMS.new"
    reason=$(download SHA256SUMS "$SUMS.new" 2>&1) || no_release "There is no release to take at $URL: ${reason##*$'\n'}"
    check_signature "$SUMS.new"
    mv "$SUMS.new" "$SUMS"
}

# The version stays the same until the next release, while the sources change.
check_sources() {
    local list=sources-$VERSION.txt changed
    [[ -n $(expected_digest "$list") && -n $(expected_digest "$IMAGES") ]] ||
        no_release "The release at $URL is not one of version $VERSION for $ARCH"
    git rev-parse --quiet --verify HEAD >/dev/null 2>&1 || return 0
    take_file "$list"
    sources | cmp --quiet - "$DIRECTORY/$list" ||
        no_release "The release of version $VERSION was not made from this commit, which has other sources"
    ! changed=$(changed_sources) || no_release "The release of version $VERSION is not taken: $changed is not committed"
}

take_program() {
    local name=mcp-code-sandbox-$VERSION-$ARCH-linux program=$DIRECTORY/mcp-code-sandbox
    [[ ! -x $program ]] || return 0
    take_file "$name.tar.gz"
    tar --extract --gzip --file "$DIRECTORY/$name.tar.gz" --directory "$DIRECTORY" "$name/mcp-code-sandbox"
    mv "$DIRECTORY/$name/mcp-code-sandbox" "$program"
    rm -r "${DIRECTORY:?}/$name"
}

# An image of a language that was built after the release has newer packages: ./build.sh --fresh.
is_newer_here() {
    local image=$1 created=$2 here
    [[ $image == mcp-sandbox-* ]] || return 1
    here=$(docker image inspect --format '{{.Created}}' "$image:latest" 2>/dev/null) || return 1
    [[ ${here:0:19} > ${created:0:19} ]]
}

# Whether the engine has the image of the release, or a newer one, under its name.
has_image() {
    local image=$1 configuration manifest created
    read -r configuration manifest created < <(sed -n "s/^$image //p" "$DIRECTORY/$IMAGES")
    if is_newer_here "$image" "$created"; then
        say "note: $image was built here after the release, and stays"
        return
    fi
    # By the one or the other it is known to the engine, if it is there.
    docker tag "$configuration" "$image:latest" 2>/dev/null || docker tag "$manifest" "$image:latest" 2>/dev/null
}

archive_of() { printf '%s' "$1-$VERSION-$ARCH.tar"; }

load_image() {
    local image=$1 archive begun=$SECONDS
    archive=$DIRECTORY/$(archive_of "$image")
    say "Loading $image"
    docker load --quiet --input "$archive" >/dev/null
    # Now the engine keeps it.
    rm "$archive"
    say "Loaded $image in $((SECONDS - begun)) s"
}

# In the order of the release: a small one first, which is there soon.
runners() { sed -n 's/^\(mcp-sandbox-[^ ]*\) .*/\1/p' "$DIRECTORY/$IMAGES"; }

# The next one is fetched while one is loaded.
take_images() {
    local image
    for image in "$@"; do
        if has_image "$image"; then
            name_for_compose "$image"
        else
            take_file "$(archive_of "$image")"
            echo "$image"
        fi
    done | while read -r image; do
        load_image "$image"
        name_for_compose "$image"
    done
}

name_for_compose() {
    [[ -z ${IMAGE_PREFIX:-}${IMAGE_TAG:-} ]] || docker tag "$1:latest" "${IMAGE_PREFIX:-}$1:${IMAGE_TAG:-latest}"
}

main() {
    local part lock images
    ARCH=$(uname -m)
    VERSION=$(version)
    DIRECTORY=.build/release/$VERSION
    SUMS=$DIRECTORY/SHA256SUMS
    IMAGES=images-$VERSION-$ARCH.txt
    URL=$(release_url)
    mkdir -p "$DIRECTORY"
    # One at a time: an earlier start may still fetch images beside its server.
    exec {lock}>"$DIRECTORY/lock"
    flock "$lock"
    take_sums
    check_sources
    take_file "$IMAGES"
    for part in "$@"; do
        case $part in
            program) take_program ;;
            server) take_images mcp-code-sandbox mcp-code-sandbox-firewall ;;
            runner) take_images "$(runners | sed -n 1p)" ;;
            runners) mapfile -t images < <(runners) && take_images "${images[@]}" ;;
            *) die "a release has no $part" ;;
        esac
    done
}

main "$@"
