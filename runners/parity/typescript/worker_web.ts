// A worker of the web kind.
const worker = new Worker(new URL("./echo.ts", import.meta.url).href);
worker.onmessage = (event) => {
  console.log("echo", event.data);
  worker.terminate();
};
worker.postMessage([1, 2, 3]);
