// A handler of the program.
process.on("SIGUSR2", (name) => {
  console.log("got", name);
  process.exit(6);
});
process.kill(process.pid, "SIGUSR2");
setTimeout(() => {}, 1000);
