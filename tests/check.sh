#!/usr/bin/env bash
# One line per check, and a count: sourced by the scripts that try the server from outside. They set `work`, a directory.

: "${work:?is a directory for what checks print}"
passed=0 failed=0
check() {
  local name=$1 output status
  shift
  output=$(mktemp -p "$work")
  # Not as the condition of an `if`, in which no failure but the last would count.
  set +e
  (
    set -e
    "$@"
  ) >"$output" 2>&1
  status=$?
  set -e
  if ((status == 0)); then
    echo "ok      $name"
    passed=$((passed + 1))
  else
    echo "FAILED  $name"
    tail -n 100 "$output" | cut -c1-500 | sed 's/^/        /'
    failed=$((failed + 1))
  fi
}
