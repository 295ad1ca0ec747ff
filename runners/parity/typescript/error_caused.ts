// An error with a cause.
try {
  JSON.parse("{broken");
} catch (cause) {
  throw new Error("cannot read the settings", { cause });
}
