// Endless recursion, caught.
function down(): void {
  down();
}
try {
  down();
} catch (error) {
  console.log((error as Error).name, (error as Error).message);
}
