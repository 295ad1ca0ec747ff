// The text of a stack.
function where(): string {
  return new Error("here").stack ?? "";
}
console.log(where());
