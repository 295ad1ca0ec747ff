// Modules that import each other.
import { even } from "./even";

console.log(even(10), even(7));
