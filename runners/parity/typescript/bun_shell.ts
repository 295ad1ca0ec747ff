// Bun's shell.
const out = await Bun.$`echo ${"two words"} | tr a-z A-Z`.text();
console.log(out);
const failed = await Bun.$`exit 3`.nothrow();
console.log(failed.exitCode);
await Bun.$`false`;
