#!/bin/sh
# The plain command: source on standard input becomes the program, whose own standard input is what came as descriptor 3,
# a file, or empty.
# It is the driver as well, if it has an argument: then the program is empty at first, and comes to start.ts by another
# way. Bun reads directories when it starts and does not look again, so all that start.ts fills is there before.
cp -dR /opt/runner/app /tmp && { [ $# -gt 0 ] || cat >/tmp/app/_main.ts; } || exit
unset PWD # set by this shell, not by whoever started the sandbox
if [ -f /proc/self/fd/3 ]; then exec 0<&3 3<&-; else exec </dev/null; fi
exec bun --cwd=/ --no-env-file --no-install --preload=/opt/runner/start.ts /tmp/app/_main.ts
