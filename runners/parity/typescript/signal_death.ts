// Death by a signal.
console.log("going");
process.kill(process.pid, "SIGKILL");
setTimeout(() => {}, 1000);
