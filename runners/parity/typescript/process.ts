// Where the process stands among others.
import { readdirSync } from "node:fs";

console.log(process.cwd(), process.ppid, process.argv, process.argv0, process.execPath, process.title);
console.log(process.platform, process.version, process.versions.bun, process.release.name, process.umask());
console.log(readdirSync("/proc/self/fd").length, readdirSync("/tmp").sort());
