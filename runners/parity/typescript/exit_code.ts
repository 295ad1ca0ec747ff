// process.exit with a number.
console.log("before");
process.exit(7);
