// The directory can be changed, and relative paths follow.
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";

mkdirSync("made");
process.chdir("made");
writeFileSync("file.txt", "x");
console.log(process.cwd(), readdirSync("."), readdirSync("/data/made"));
