// And in an event handler.
import { EventEmitter } from "node:events";

const emitter = new EventEmitter();
emitter.on("go", () => {
  throw new Error("in a handler");
});
emitter.emit("go");
