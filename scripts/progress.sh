#!/usr/bin/env bash
# Shows how far a long command is: sourced by the scripts that run one for more than ten seconds.

# with_progress WHAT SECONDS LOG COMMAND...
#
# Runs the command with its output in the file LOG. Meanwhile it says how long it has taken of about SECONDS, and how far
# it is with what it counts: on a terminal in one line that changes, elsewhere every quarter of a minute.
with_progress() {
    local what=$1 seconds=$2 log=$3 ticker status=0
    shift 3
    printf '%s\n' "$what" >&2
    mkdir -p "$(dirname "$log")"
    : >"$log"
    # The command itself stays in the foreground, where Ctrl-C reaches it.
    tell_progress "$seconds" "$log" >&2 &
    ticker=$!
    "$@" >"$log" 2>&1 </dev/null || status=$?
    kill "$ticker" 2>/dev/null || true
    wait "$ticker" 2>/dev/null || true
    if [[ -t 2 ]]; then printf '\r\e[K' >&2; fi
    return "$status"
}

# Ends by itself when the script does.
tell_progress() {
    local seconds=$1 log=$2 since=$SECONDS pause=15 begin='  ' end='\n' of silence
    if [[ -t 2 ]]; then pause=1 begin='\r\e[K  ' end=''; fi
    # Not `sleep`, a process that would go on, and keep what it prints to open, when this one is ended.
    exec {silence}<> <(:)
    while ! read -rt "$pause" -u "$silence" && kill -0 $$ 2>/dev/null; do
        of=$(steps_of "$log")
        # shellcheck disable=SC2059 # the formats are those above
        printf "$begin%s of about %s%s$end" "$(time_of $((SECONDS - since)))" "$(time_of "$seconds")" "${of:+, step $of}"
    done
}

# The last of the steps that builders of images and cargo number: `Step 3/9`, `[2/7]`, `120/340:`.
steps_of() {
    tail -c 20000 "$1" | tr '\r' '\n' | grep -aoE '(Step |\[([a-z0-9-]+ )? *|\] )[0-9]+/[0-9]+' | tail -n 1 |
        grep -oE '[0-9]+/[0-9]+' | sed 's,/, of ,' || true
}

time_of() {
    if (($1 < 90)); then printf '%d s' "$1"; else printf '%d min' $((($1 + 30) / 60)); fi
}

# install_with_progress SECONDS NAME...
#
# Installs packages of Debian, or ends the script and shows why not.
install_with_progress() {
    local seconds=$1 log=.build/packages.log
    shift
    with_progress "Installing $*" "$seconds" "$log" apt_install "$@" || {
        tail -n 20 "$log" >&2
        die "installing $* failed"
    }
}

apt_install() {
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
}
