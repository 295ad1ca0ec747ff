// An error in a worker.
import { Worker } from "node:worker_threads";

const worker = new Worker("throw new Error('in the worker')", { eval: true });
worker.on("error", (error) => console.log("error:", error.message));
worker.on("exit", (code) => console.log("exit", code));
