#!/bin/sh
# Compiles /tmp/main.go against what the image has of the standard library: `go build` would look for a cache that it
# can write to, and fill it.
set -e
go=$(go env GOTOOLDIR)
"$go/compile" -p main -complete -importcfg /opt/runner/importcfg -o /tmp/main.o /tmp/main.go
"$go/link" -importcfg /opt/runner/importcfg -o /tmp/main /tmp/main.o
rm /tmp/main.o
