#!/bin/sh
# The plain command: source on standard input becomes the script, whose own standard input is empty.
cat >/tmp/main.sh || exit
exec bash /tmp/main.sh </dev/null
