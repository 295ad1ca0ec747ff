// Wrong arguments.
for (const attempt of [() => (Bun.spawn as any)(), () => Bun.spawnSync([]), () => Bun.spawn({} as any)]) {
  try {
    attempt();
  } catch (error) {
    console.log((error as Error).name, (error as Error).message);
  }
}
console.log(Bun.spawn.name, Bun.spawn.length, typeof Bun.spawnSync);
