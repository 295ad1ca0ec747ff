// A name that a module does not export.
import { nothing } from "./helper";

console.log(nothing);
