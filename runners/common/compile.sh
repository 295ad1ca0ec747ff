#!/bin/sh
# Runs a program that has to be compiled: the arguments make /tmp/main of its source.
"$@" </dev/null >&2 || {
    echo "The program did not compile." >&2
    exit 1
}
exec /tmp/main
