#!/bin/sh
# The plain command: source on standard input becomes the program, whose own standard input is empty.
# -P keeps the script's directory off sys.path; /data is on it by sandbox.pth.
cat >/tmp/main.py || exit
exec python -P /tmp/main.py </dev/null
