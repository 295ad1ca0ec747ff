// Top-level await of a rejection.
await Promise.reject(new TypeError("awaited"));
