// Standard input is empty, in every way of reading it.
import { readFileSync } from "node:fs";

console.log([await Bun.stdin.text()], [readFileSync(0, "utf8")], prompt("name?"), confirm("sure?"));
