// Many timers, in order.
import { setTimeout as sleep } from "node:timers/promises";

const seen: number[] = [];
await Promise.all([40, 5, 20].map((ms) => sleep(ms).then(() => seen.push(ms))));
console.log(seen, await sleep(1, "value"));
