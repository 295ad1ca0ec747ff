// A program in the CommonJS style.
const path = require("path");
const { readFileSync } = require("fs");

module.exports = { done: true };
console.log(path.basename("/a/b.txt"), readFileSync("table.csv", "utf8").length, exports === module.exports);
if (require.main === module) console.log("main");
