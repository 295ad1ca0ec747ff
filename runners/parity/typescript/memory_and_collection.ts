// The collector can be asked for.
Bun.gc(true);
console.log(process.memoryUsage().heapUsed < 100e6, typeof gc);
