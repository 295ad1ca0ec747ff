// What converters must keep of a tool's arguments, and the servers that they are tried on, one for each set of tools.
// Needs MCP_URLS, as "default=http://… artifacts=http://… python=http://…", and MCP_API_TOKEN in the environment.

import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const code = "print(6 * 7)";
// What is called in each set, with what it requires and no more.
const calls = {
  default: ["run_code", { language: "python", code }],
  artifacts: ["sandbox_run_python", { code }],
  python: ["execute_python", { code }],
};

export const headers = { Authorization: `Bearer ${process.env.MCP_API_TOKEN}` };

// Words that some interface of a model refuses or some converter turns into something else.
const foreign = ["$ref", "$defs", "oneOf", "anyOf", "allOf", "const", "exclusiveMinimum", "exclusiveMaximum", "default", "format", "nullable"];

// Compares what a model is shown with what was published. Some interfaces have no way to say what a map contains.
export function compare(published, shown, { maps = true } = {}, path = "arguments") {
  assert.ok(shown, `${path} is shown`);
  assert.equal(String(shown.type).toLowerCase(), published.type, path);
  for (const word of foreign) assert.ok(!(word in shown), `${path} has ${word}`);
  assert.equal(shown.description, published.description, path);
  assert.deepEqual(shown.enum, published.enum, path);
  assert.equal(shown.minimum, published.minimum, path);
  const names = Object.keys(published.properties ?? {});
  assert.deepEqual(Object.keys(shown.properties ?? {}), names, path);
  assert.deepEqual(shown.required ?? [], published.required ?? [], path);
  for (const name of names) compare(published.properties[name], shown.properties[name], { maps }, `${path}.${name}`);
  if (published.items) compare(published.items, shown.items, { maps }, `${path}[]`);
  if (maps && published.additionalProperties) compare(published.additionalProperties, shown.additionalProperties, { maps }, `${path}.*`);
}

// What a call printed, given as text or as an object in text.
export function printed(text) {
  assert.equal(JSON.parse(text).stdout, "42\n", text);
}

export async function connected(url) {
  const client = new Client({ name: "test", version: "1.0.0" });
  await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit: { headers } }));
  return client;
}

// Runs `check(url, name, arguments)` for every set of tools.
export async function eachSet(check) {
  const timer = setTimeout(() => { throw new Error("it took too long"); }, 60_000);
  for (const entry of process.env.MCP_URLS.split(" ")) {
    const at = entry.indexOf("=");
    console.log(entry.slice(0, at));
    await check(entry.slice(at + 1), ...calls[entry.slice(0, at)]);
  }
  clearTimeout(timer);
}
