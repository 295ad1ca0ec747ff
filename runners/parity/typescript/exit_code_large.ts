// Only the low eight bits of an exit code count.
process.exit(256 + 9);
