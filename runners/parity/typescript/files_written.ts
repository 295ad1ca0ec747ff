// Where a program may write.
import { writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";

for (const path of ["/data/ok.txt", `${tmpdir()}/ok.txt`, "/ok.txt", "/opt/ok.txt", `${homedir()}/home.txt`, "relative.txt"]) {
  try {
    writeFileSync(path, "x");
    console.log(path, "written");
  } catch (error) {
    console.log(path, (error as NodeJS.ErrnoException).code);
  }
}
