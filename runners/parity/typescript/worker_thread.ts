// A worker of an uploaded file, with messages.
import { Worker } from "node:worker_threads";

const worker = new Worker(new URL("./worker.ts", import.meta.url), { workerData: 20 });
worker.on("message", (message) => console.log("from the worker:", message));
worker.on("exit", (code) => console.log("worker ended with", code));
