// A server of one application's own, which can be started anew at the same address.

import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { openSync } from "node:fs";
import { createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

const secret = () => randomBytes(32).toString("hex");

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  return port;
}

export async function startSandbox(directory) {
  const port = await freePort();
  const token = secret();
  const url = `http://localhost:${port}`;
  const env = {
    ...process.env, MCP_API_TOKEN: token, FILE_SECRET: secret(), SANDBOX_ROOT: `${directory}/root`,
    MCP_HTTP_ADDR: `127.0.0.1:${port}`, POOL_SIZE: "0", SANDBOX_REUSE: "never", RUN_CPUS: "1",
  };
  const log = openSync(`${directory}/server.log`, "a");
  let child;

  async function start() {
    child = spawn(process.env.MCP_SERVER, [], { env, stdio: ["ignore", log, log] });
    for (let tries = 0; tries < 300; tries += 1) {
      const ready = await fetch(`${url}/readyz`).catch(() => ({}));
      if (ready.ok) return;
      await sleep(100);
    }
    throw new Error("the server does not become ready");
  }

  async function stop() {
    const ended = once(child, "exit");
    child.kill("SIGTERM");
    await ended;
  }

  async function restart() {
    await stop();
    await start();
  }

  await start();
  return { url, token, restart, stop };
}
