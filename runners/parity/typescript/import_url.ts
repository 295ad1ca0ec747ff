// Files beside the program, by URL and by __dirname.
import { readFileSync } from "node:fs";
import { join } from "node:path";

console.log(readFileSync(new URL("./table.csv", import.meta.url), "utf8").length);
console.log(readFileSync(join(__dirname, "data.json"), "utf8").length, await Bun.file("table.csv").exists());
