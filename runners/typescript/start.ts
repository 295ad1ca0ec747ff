// Preloaded into every program: makes the program's directory look like /data, then lets Bun load the program.
//
// The program is /tmp/app/main.ts, because /data belongs to the user. What lies in /data is linked beside it,
// so that `import { x } from "./helper"` and `new URL("./table.csv", import.meta.url)` find uploaded files, by
// the ordinary rules. Bun starts in / (see run.sh), so that it takes no settings from files in /data.
import { readdirSync, symlinkSync } from "node:fs";
import { isMainThread } from "node:worker_threads";

const FILES = "/data";
const PROGRAM_DIRECTORY = "/tmp/app";

function linkFiles(): void {
  for (const name of readdirSync(FILES)) {
    try {
      symlinkSync(`${FILES}/${name}`, `${PROGRAM_DIRECTORY}/${name}`);
    } catch {
      // The program itself, or linked before.
    }
  }
}

if (isMainThread) {
  linkFiles();
  process.chdir(FILES);
}
