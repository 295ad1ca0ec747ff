// A constant that is assigned to.
const fixed = 1;
// @ts-ignore
fixed = 2;
