// A program that is its own worker.
import { isMainThread, parentPort, Worker } from "node:worker_threads";

if (isMainThread) {
  const worker = new Worker(__filename);
  worker.on("message", (message) => console.log(message));
  worker.on("exit", () => console.log("over"));
} else {
  parentPort!.postMessage({ main: isMainThread, directory: process.cwd() });
}
