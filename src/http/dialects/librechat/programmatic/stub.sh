# shellcheck shell=bash disable=SC2154 # what is put before it sets the mark
# Each tool is a function that leaves its call in a file, tells the server of it among the output, and waits for the
# file with the answer. The output is kept apart, for functions are called in substitutions; nothing is ever written to
# the other pipe, so to read from it is to wait. A tool may have the name of a command, so commands are named as such.
exec {__sandbox_output}>&1 {__sandbox_pause}<> <(:)
__sandbox_call() {
    local call=.tool-$BASHPID-$RANDOM$RANDOM$RANDOM answer
    builtin printf '%s\n%s' "$1" "${2-}" >"/data/$call" || return
    builtin printf '\x1e%s{"call":"%s"}\x1e' "$__sandbox_mark" "$call" >&"$__sandbox_output"
    until [[ -e /data/$call.answer ]]; do builtin read -rt 0.02 -u "$__sandbox_pause" answer || :; done
    answer=$(<"/data/$call.answer")
    command -p rm -f "/data/$call" "/data/$call.answer"
    if [[ $answer = ok$'\n'* ]]; then
        builtin printf '%s\n' "${answer#*$'\n'}"
    else
        builtin printf '%s: %s\n' "$1" "${answer#*$'\n'}" >&2
        return 1
    fi
}
