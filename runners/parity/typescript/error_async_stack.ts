// An error through several awaits.
async function first(): Promise<void> {
  await Promise.resolve();
  await second();
}

async function second(): Promise<void> {
  await Promise.resolve();
  throw new Error("after awaits");
}

await first();
