// No colours on a pipe.
console.log(process.stdout.isTTY, process.stderr.isTTY, process.stdin.isTTY, process.stdout.columns);
console.log([1, "two", { three: true }], new Error("shown").message);
