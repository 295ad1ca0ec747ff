// A long text in one write, then exit.
process.stdout.write("y".repeat(300_000) + "\n", () => process.exit(1));
