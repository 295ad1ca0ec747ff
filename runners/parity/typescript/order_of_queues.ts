// The order of ticks, microtasks, timers and immediates.
setTimeout(() => console.log("timeout"), 50);
setImmediate(() => console.log("immediate"));
process.nextTick(() => console.log("tick"));
queueMicrotask(() => console.log("microtask"));
Promise.resolve().then(() => console.log("promise"));
console.log("main");
