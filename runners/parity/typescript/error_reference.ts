// A name that does not exist.
// @ts-ignore
console.log(unknownName);
