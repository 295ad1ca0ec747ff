// The command line.
import { readFileSync } from "node:fs";

console.log(readFileSync("/proc/self/cmdline", "utf8").split("\0"), process.execArgv);
