// assert, count, group and trace.
console.assert(1 > 2, "wrong");
console.count("n");
console.count("n");
console.group("group");
console.log("inside");
console.groupEnd();
console.trace("trace");
