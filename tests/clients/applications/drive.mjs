// Applications against the built server, each with a scripted model, a server and a home of its own.
// Usage: drive.mjs DIRECTORY [NAME...], with MCP_SERVER in the environment. It is run where there is only loopback.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { openSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { startModel } from "./model/server.mjs";
import { programs } from "./programs.mjs";
import { startSandbox } from "./sandbox.mjs";
import { RESTARTED_BEFORE, script } from "./script.mjs";

const AT_ONCE = 2;
const LONGEST = 120_000;

// Runs a program to its end, and all that it has started.
async function run({ command, args, env }, { home, directory, output }) {
  const all = { PATH: process.env.PATH, LANG: "C.UTF-8", TERM: "dumb", HOME: home, ...env };
  const child = spawn(command, args, { cwd: directory, env: all, stdio: ["ignore", output, output], detached: true });
  const end = () => { try { process.kill(-child.pid, "SIGKILL"); } catch { /* it is over */ } };
  const timer = setTimeout(end, LONGEST);
  const [code] = await once(child, "exit");
  clearTimeout(timer);
  end();
  return code;
}

async function drive(name, { sees, prints = `The results: ${sees}.`, steps }, directory) {
  const home = `${directory}/home`;
  await mkdir(home, { recursive: true });
  const sandbox = await startSandbox(directory);
  const noted = [];
  const model = await startModel({
    script: script(`conv_${name.replaceAll(/\W+/g, "-")}`),
    before: async (call) => { if (call === RESTARTED_BEFORE) await sandbox.restart(); },
    noted: (request) => noted.push(request),
  });
  const place = { home, directory, output: openSync(`${directory}/output`, "a") };
  try {
    for (const step of await steps({ url: sandbox.url, token: sandbox.token, model: model.url, ...place })) {
      const code = await run(step, place);
      if (code !== 0) return `it ended with ${code}`;
    }
    const output = await readFile(`${directory}/output`, "utf8");
    return output.includes(prints) ? undefined : `it was to print: ${prints}`;
  } finally {
    await writeFile(`${directory}/noted.json`, JSON.stringify(noted.at(-1) ?? {}));
    model.stop();
    await sandbox.stop();
  }
}

// What a person needs to know about a failure: the end of what the program said, and what its model was sent.
async function told(directory) {
  const read = (name) => readFile(`${directory}/${name}`, "utf8").catch(() => "");
  const { tool, results = [] } = JSON.parse((await read("noted.json")) || "{}");
  const seen = results.map(({ text, ...rest }) => JSON.stringify({ ...rest, text: text.slice(0, 400) }));
  return [(await read("output")).slice(-2000), `tool: ${tool?.name}`, ...seen].join("\n");
}

const [work, ...names] = process.argv.slice(2);
const waiting = names.length > 0 ? names : Object.keys(programs);
let failures = 0;

async function worker() {
  for (let name = waiting.shift(); name; name = waiting.shift()) {
    const directory = `${work}/${name.replaceAll(/\W+/g, "-")}`;
    await mkdir(directory, { recursive: true });
    const begun = Date.now();
    const failure = await drive(name, programs[name], directory).catch((error) => error.stack);
    console.log(`${failure ? "FAILED " : "ok     "} ${name}, ${Math.round((Date.now() - begun) / 1000)} s`);
    if (!failure) continue;
    failures += 1;
    console.log(`${failure}\n${await told(directory)}`.replaceAll(/^/gm, "        "));
  }
}

await Promise.all(Array.from({ length: AT_ONCE }, worker));
process.exit(failures === 0 ? 0 : 1);
