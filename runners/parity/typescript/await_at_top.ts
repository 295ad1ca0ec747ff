// Top-level await, in order.
const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
console.log("a");
await wait(5);
console.log("b");
for await (const value of [wait(1).then(() => "c"), "d"]) console.log(value);
