// Children inherit the same environment, however they are started.
import { execSync } from "node:child_process";

const show = (text: string) => console.log(text.split("\n").filter((line) => line && !line.startsWith("HOSTNAME=")).sort().join("\n"), "\n");
show(execSync("env").toString());
show(Bun.spawnSync(["env"]).stdout.toString());
show(await new Response(Bun.spawn({ cmd: ["env"], stdout: "pipe" }).stdout).text());
show(await Bun.$`env`.text());
