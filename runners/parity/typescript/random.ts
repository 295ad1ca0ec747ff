// Random numbers are random.
import { randomUUID } from "node:crypto";

const values = [Math.random(), Math.random(), randomUUID(), crypto.randomUUID()];
console.log(new Set(values).size, Math.random() < 1);
