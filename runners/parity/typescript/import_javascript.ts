// CommonJS and ES modules in JavaScript.
import common from "./common.cjs";
import { modern } from "./modern.mjs";

console.log(common.name, modern());
