// There is no network, and errors say so at once.
for (const attempt of [() => fetch("http://192.0.2.1/"), () => fetch("http://host.invalid/")]) {
  try {
    await attempt();
  } catch (error) {
    console.log((error as Error).name, (error as any).code, (error as Error).message);
  }
}
