// A package that is not there.
import leftPad from "left-pad-that-is-not-there";

console.log(leftPad);
