// A child that is still there when the program ends.
import { spawn } from "node:child_process";

spawn("sleep", ["60"], { detached: true, stdio: "ignore" }).unref();
console.log("not waiting");
