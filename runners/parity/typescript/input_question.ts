// A question that nobody answers.
import { createInterface } from "node:readline/promises";

const lines = createInterface({ input: process.stdin, output: process.stdout });
lines.on("close", () => console.log("closed"));
lines.question("name? ").then((name) => console.log("hello", name));
