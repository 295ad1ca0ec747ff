// Both streams, with and without a newline.
process.stdout.write("no newline");
process.stderr.write("no newline either");
console.log();
console.warn("warn");
console.info("info");
console.debug("debug");
