// Work that is pending when the program ends.
import { createWriteStream } from "node:fs";

const stream = createWriteStream("stream.txt");
for (let line = 0; line < 1000; line++) stream.write(`line ${line}\n`);
Bun.file("sink.txt").writer().write("in a buffer");
console.log("not waiting");
