// process.exitCode, and exit handlers that see it.
process.on("exit", (code) => console.log("exit", code));
process.exitCode = 3;
