// An uploaded module that imports a package.
import { parse } from "./parser";

console.log(parse("x,y\n1,2"));
