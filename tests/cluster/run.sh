#!/usr/bin/env bash
# The tests that need a cluster of Kubernetes: brings one up, tries it, and takes it down. One that KUBE_TEST_CONFIG names
# is only tried. One that was up before is used, and left as it was.
set -euo pipefail
cd "$(dirname "$0")/../.."

if [[ ${KUBE_TEST_CONFIG:-} ]]; then
    tests/cluster/smoke.sh
    exit
fi
if tests/cluster/cluster.sh status >/dev/null 2>&1; then
    tests/cluster/cluster.sh smoke
    exit
fi
trap 'tests/cluster/cluster.sh down' EXIT
tests/cluster/cluster.sh up
