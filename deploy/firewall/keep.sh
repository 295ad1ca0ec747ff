#!/usr/bin/env bash
# Reads the firewall rules back every 20 seconds and installs them again when they are gone: after a restart of the
# machine, of Docker, or of whatever else writes rules. It writes what it found to /report/rules, for the server
# (FIREWALL_REPORT).
set -euo pipefail

REPORT=/report/rules

trap exit TERM INT

# In one step, so that nobody reads half of it.
report() {
    printf '%s\n' "$1" >"$REPORT.new"
    mv "$REPORT.new" "$REPORT"
}

look() {
    local said
    if said=$(/firewall.sh check 2>&1); then
        report "in place"
    else
        report "${said:-the check failed}"
        return 1
    fi
}

while true; do
    look || { flock /report/lock /firewall.sh install && look; } || true
    sleep 20 &
    wait $!
done
