// A brace that is missing.
function broken() {
  console.log("x");
