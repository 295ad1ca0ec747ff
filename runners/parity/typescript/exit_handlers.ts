// Handlers run in order; beforeExit can go on.
let again = true;
process.on("beforeExit", () => {
  console.log("before exit");
  if (again) setTimeout(() => console.log("one more"), 1);
  again = false;
});
process.on("exit", () => console.log("first"));
process.on("exit", () => console.log("second"));
