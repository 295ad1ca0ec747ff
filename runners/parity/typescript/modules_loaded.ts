// What is loaded at the start.
console.log(Object.keys(require.cache).sort(), process.listenerCount("exit"), process.eventNames());
