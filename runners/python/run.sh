#!/bin/sh
# The plain command: source on standard input becomes the program, whose own standard input is what came as descriptor 3,
# a file, or empty.
# It is the driver as well: then the source is empty at first, and comes to _sandbox_driver.py by another way.
# As `light` it is a driver that loads large libraries only when programs name them.
# -P keeps the script's directory off sys.path; /data is on it by sandbox.pth.
cat >/tmp/main.py || exit
unset PWD # set by this shell, not by whoever started the sandbox
if [ "$1" = light ]; then exec 4</dev/null; fi
if [ -f /proc/self/fd/3 ]; then exec 0<&3 3<&-; else exec </dev/null; fi
exec python -P /tmp/main.py
