// require() of modules, data and packages.
const { answer } = require("./helper");
const data = require("./data.json");
console.log(answer, data.items[0], typeof require("pg").Client, require("./common.cjs").name);
console.log(require.resolve("./helper"), require.main === module);
