// An exit handler that fails.
process.on("exit", () => {
  throw new Error("in the exit handler");
});
console.log("done");
