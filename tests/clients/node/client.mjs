// The official TypeScript clients against a running server, trying one way to connect after another.
// Usage: client.mjs WAY..., with MCP_URL, MCP_API_TOKEN and MCP_SERVER in the environment.

import assert from "node:assert/strict";

const url = process.env.MCP_URL;
const headers = { Authorization: `Bearer ${process.env.MCP_API_TOKEN}` };
const code = "import time\nprint('one', flush=True)\ntime.sleep(0.4)\nprint('two', flush=True)\ntime.sleep(0.4)\nprint('three')";
const info = { name: "test", version: "1.0.0" };

function server() {
  const { PATH, HOME, SANDBOX_ROOT, DISK_FREE_FLOOR } = process.env;
  const env = { PATH, HOME, SANDBOX_ROOT, DISK_FREE_FLOOR, POOL_SIZE: "0", SANDBOX_REUSE: "never" };
  return { command: process.env.MCP_SERVER, args: ["stdio"], env };
}

// Version 1 of the SDK: sessions, the old event streams, standard input.
async function version1(kind) {
  const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
  const client = new Client(info);
  if (kind === "http") {
    const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
    await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit: { headers } }));
  } else if (kind === "sse") {
    const { SSEClientTransport } = await import("@modelcontextprotocol/sdk/client/sse.js");
    await client.connect(new SSEClientTransport(new URL(`${url}/sse`), { requestInit: { headers } }));
  } else {
    const { StdioClientTransport } = await import("@modelcontextprotocol/sdk/client/stdio.js");
    await client.connect(new StdioClientTransport(server()));
  }
  const call = (name, args, onprogress) => client.callTool({ name, arguments: args }, undefined, { onprogress });
  return { client, call };
}

// Version 2: negotiates the newest revision when told to.
async function version2(kind) {
  const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
  const options = kind === "legacy" ? {} : { versionNegotiation: { mode: "auto" } };
  const client = new Client(info, options);
  await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit: { headers } }));
  const call = (name, args, onprogress) => client.callTool({ name, arguments: args }, { onprogress });
  return { client, call };
}

const ways = {
  "sdk-http": () => version1("http"),
  "sdk-sse": () => version1("sse"),
  "sdk-stdio": () => version1("stdio"),
  "client-legacy": () => version2("legacy"),
  "client-auto": () => version2("auto"),
};

async function use(way) {
  const { client, call } = await ways[way]();
  const { tools } = await client.listTools();
  assert.ok(tools.some((tool) => tool.name === "run_code"));
  const told = [];
  const values = [];
  const result = await call("run_code", { language: "python", code, conversationId: `client-${way}` }, (progress) => {
    values.push(progress.progress);
    if (progress.message) told.push(progress.message);
  });
  const outcome = result.structuredContent;
  assert.equal(outcome.stdout, "one\ntwo\nthree\n", JSON.stringify(outcome));
  assert.equal(told[0], "one\n");
  assert.ok(values.every((value, index) => index === 0 || values[index - 1] < value), `${values}`);
  const again = await call("get_run", { runId: outcome.runId });
  assert.equal(again.structuredContent.stdout, outcome.stdout);
  // A failure is an answer too: version 1 checks it against the tool's output schema.
  for (const [tool, args, code] of [
    ["run_code", { language: "cobol", code: "" }, "unknown_language"],
    ["get_run", { runId: "none" }, "run_not_found"],
    ["read_file", { conversationId: `client-${way}`, filename: "none" }, "file_not_found"],
    ["list_files", { conversationId: "" }, "invalid_arguments"],
  ]) {
    const failed = await call(tool, args);
    assert.ok(failed.isError && failed.structuredContent.code === code, JSON.stringify(failed));
  }
  await client.close();
}

for (const way of process.argv.slice(2)) {
  console.log(way);
  const timer = setTimeout(() => { throw new Error("it took too long"); }, 90_000);
  await use(way);
  clearTimeout(timer);
}
process.exit(0);
