// The program forks itself.
import { fork } from "node:child_process";

if (process.send) {
  process.send({ argument: process.argv[2], directory: process.cwd() });
  process.disconnect();
} else {
  const child = fork(__filename, ["second"]);
  child.on("message", (message) => console.log(message));
  child.on("exit", (code) => console.log("child ended with", code));
}
