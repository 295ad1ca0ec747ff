// A failed import() can be caught.
for (const name of ["./missing", "not-a-package", "node:nothing"]) {
  try {
    await import(name);
  } catch (error) {
    console.log((error as any).name, (error as any).code, String(error));
  }
}
