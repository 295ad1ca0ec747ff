// It leads a session of its own.
import { readFileSync } from "node:fs";

const [, parent, group, session] = readFileSync("/proc/self/stat", "utf8").split(") ")[1].split(" ").map(Number);
console.log(parent, group === process.pid, session === process.pid);
