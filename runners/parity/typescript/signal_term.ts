// SIGTERM is not handled by default.
process.on("exit", () => console.log("never"));
process.kill(process.pid, "SIGTERM");
setTimeout(() => {}, 1000);
