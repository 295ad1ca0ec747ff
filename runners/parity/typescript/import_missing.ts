// An uploaded module that is not there.
import { x } from "./missing";

console.log(x);
