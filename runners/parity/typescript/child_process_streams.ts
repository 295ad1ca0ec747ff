// A child that is talked to.
import { spawn } from "node:child_process";

const child = spawn("cat");
child.stdout.on("data", (data) => console.log("child says", data.toString()));
child.on("close", (code, signal) => console.log("closed", code, signal));
child.stdin.end("hi");
