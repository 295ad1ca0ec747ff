// An error event that nobody listens to.
import { EventEmitter } from "node:events";

new EventEmitter().emit("error", new Error("unheard"));
