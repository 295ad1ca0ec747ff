// And in a microtask.
queueMicrotask(() => {
  throw new Error("in a microtask");
});
console.log("main ends");
