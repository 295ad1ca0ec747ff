#!/bin/sh
# Copies what was fetched into /data/tree: in a container without a network, with a directory of its own as /data.
set -eu
mkdir -p /data/tree/node_modules
if [ -d /packages/fetched/node_modules ]; then
    cp -R /packages/fetched/node_modules/. /data/tree/node_modules
    rm -rf /data/tree/node_modules/.cache
fi
