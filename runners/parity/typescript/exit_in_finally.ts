// process.exit does not run finally blocks.
try {
  process.exit(2);
} finally {
  console.log("never");
}
