declare const self: Worker;

self.onmessage = (event: MessageEvent) => postMessage(event.data);
