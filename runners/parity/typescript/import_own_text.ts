// The program can read its own source.
import { readFileSync } from "node:fs";

console.log(readFileSync(__filename, "utf8").split("\n")[0]);
