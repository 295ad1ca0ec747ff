// Commands, their output, codes and errors.
import { execFileSync, spawnSync } from "node:child_process";

const result = spawnSync("sh", ["-c", "echo out; echo err >&2; exit 3"]);
console.log(result.status, result.stdout.toString(), result.stderr.toString());
try {
  execFileSync("false");
} catch (error) {
  console.log((error as any).status, (error as Error).message);
}
console.log(spawnSync("no-such-command").error?.message);
