// A directory of modules, which import each other.
import area from "./shapes";
import { square } from "./shapes/square";

console.log(area(3), square(4));
