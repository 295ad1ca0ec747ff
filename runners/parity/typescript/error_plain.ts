// An uncaught error through two functions.
function inner(value: number): number {
  if (value === 0) throw new RangeError("zero is not allowed");
  return 1 / value;
}

function outer(): number {
  return inner(0);
}

outer();
