// An uploaded module, with and without its ending.
import { answer, greet } from "./helper";
import * as again from "./helper.ts";

console.log(answer, greet("you"), again.greet === greet);
