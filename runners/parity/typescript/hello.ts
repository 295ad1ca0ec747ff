// The simplest program.
console.log("hello");
