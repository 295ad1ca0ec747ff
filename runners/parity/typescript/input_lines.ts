// Lines of standard input.
import { createInterface } from "node:readline";

for await (const line of createInterface({ input: process.stdin })) console.log(line);
console.log("no lines");
