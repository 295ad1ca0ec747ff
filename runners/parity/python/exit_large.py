# Only the low eight bits of an exit code count.
raise SystemExit(256 + 9)
