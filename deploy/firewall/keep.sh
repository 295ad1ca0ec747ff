#!/usr/bin/env bash
# Installs the firewall rules, and installs them again when they are gone: after a restart of the machine, of Docker, or
# of whatever else writes rules.
set -euo pipefail

trap exit TERM INT

until /firewall.sh check >/dev/null 2>&1 || /firewall.sh install; do
    sleep 5 &
    wait $!
done
while true; do
    sleep 30 &
    wait $!
    /firewall.sh check || /firewall.sh install
done
