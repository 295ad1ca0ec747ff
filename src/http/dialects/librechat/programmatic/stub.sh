# shellcheck shell=bash disable=SC2154 # what is put before it sets the mark
# Each tool is a function that leaves its call in a file, tells the server of it among the output, and waits for the
# file with the answer. The output is kept apart, for functions are called in substitutions.
exec {__sandbox_output}>&1
__sandbox_call() {
    local call=.tool-$BASHPID-$RANDOM$RANDOM$RANDOM status text
    printf '%s\n%s' "$1" "${2-}" >"/data/$call" || return
    printf '\x1e%s{"call":"%s"}\x1e' "$__sandbox_mark" "$call" >&"$__sandbox_output"
    until [ -e "/data/$call.answer" ]; do sleep 0.02; done
    { IFS= read -r status; text=$(cat); } <"/data/$call.answer"
    rm -f "/data/$call" "/data/$call.answer"
    if [ "$status" = ok ]; then
        printf '%s\n' "$text"
    else
        printf '%s: %s\n' "$1" "$text" >&2
        return 1
    fi
}
