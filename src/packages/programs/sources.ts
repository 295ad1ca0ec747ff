// Prints the address that Bun takes packages from when the server's settings name none, as one JSON array: what the image
// configures, or else Bun's own. Nothing is fetched or published: Bun only says where it would publish.
import { writeFileSync } from "node:fs";

writeFileSync("/data/package.json", JSON.stringify({ name: "nothing", version: "0.0.0" }));
const said = Bun.spawnSync(["bun", "publish", "--dry-run", "--ignore-scripts"], {
  cwd: "/data",
  stdin: "ignore",
  // It says nothing to somebody without a token.
  env: { ...process.env, NPM_CONFIG_TOKEN: "none", TMPDIR: "/data", BUN_TMPDIR: "/data" },
});
const address = /^Registry: (\S+)$/m.exec(said.stdout.toString() + said.stderr.toString())?.[1];
console.log(JSON.stringify(address ? [address] : []));
