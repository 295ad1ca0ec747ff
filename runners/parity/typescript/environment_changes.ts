// Changes reach children of node:child_process.
import { execSync } from "node:child_process";

process.env.PARITY = "set";
console.log(execSync("echo $PARITY").toString());
console.log(Bun.spawnSync(["sh", "-c", "echo $PARITY"]).stdout.toString());
console.log(Bun.spawnSync({ cmd: ["sh", "-c", "echo $PARITY"], env: { PARITY: "given" } }).stdout.toString());
