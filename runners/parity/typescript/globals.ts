// The names that a program starts with.
console.log(Object.getOwnPropertyNames(globalThis).sort().join(" "));
