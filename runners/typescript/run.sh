#!/bin/sh
# The plain command: source on standard input becomes the program, whose own standard input is empty.
# It is the driver as well: then the source is empty at first, and comes to start.ts by another way.
mkdir /tmp/app /tmp/app/.links && ln -s /data/node_modules /tmp/app && cat >/tmp/app/main.ts || exit
unset PWD # set by this shell, not by whoever started the sandbox
exec bun --cwd=/ --no-env-file --no-install --preload=/opt/runner/start.ts /tmp/app/main.ts </dev/null
