// What `this` is in a function, and the names of CommonJS.
function context(this: unknown) {
  return this;
}
console.log(context() === globalThis, typeof globalThis, typeof require, typeof module, typeof exports);
