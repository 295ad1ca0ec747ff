// What the kernel says about the process.
import { readFileSync } from "node:fs";

const status = readFileSync("/proc/self/status", "utf8");
for (const name of ["Name", "NoNewPrivs", "CapEff", "CapBnd", "Seccomp", "SigBlk", "SigIgn"]) console.log(status.match(new RegExp(`^${name}:.*`, "m"))?.[0]);
console.log(readFileSync("/proc/self/oom_score_adj", "utf8").trim());
