#!/bin/sh
# The plain command: source on standard input becomes the script, whose own standard input is what came as descriptor 3, a
# file, or empty. What is loaded into bash keeps its output in order, and removes itself from the environment.
cat >/tmp/main.sh || exit
export LD_PRELOAD="/opt/runner/order.so${LD_PRELOAD:+:$LD_PRELOAD}"
if [ -f /proc/self/fd/3 ]; then exec 0<&3 3<&-; else exec </dev/null; fi
exec bash /tmp/main.sh
