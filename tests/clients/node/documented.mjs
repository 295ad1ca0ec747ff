// Connects as the configurations below docs/clients say, with the client that most of those applications are built on.
// Usage: documented.mjs HEADING..., with MCP_URL, MCP_API_TOKEN and MCP_SERVER in the environment. What a reader fills in
// is filled in: the address of this server, its token, the path of the program. The rest is taken as it stands.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile, rm, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { parse } from "yaml";

// Sections that say in their text what is filled into a form.
const FORMS = ["n8n", "Open WebUI"];
const { MCP_URL, MCP_API_TOKEN, MCP_SERVER, PATH, HOME, SANDBOX_ROOT, DISK_FREE_FLOOR } = process.env;

async function textBelow(heading) {
  const document = (name) => readFile(new URL(`../../../docs/clients/${name}`, import.meta.url), "utf8");
  const texts = await Promise.all(["applications.md", "sdks.md"].map(document));
  const sections = texts.flatMap((text) => text.split(/^## /m));
  const section = sections.find((part) => part.startsWith(`${heading}\n`));
  assert.ok(section, `docs/clients has no section ${heading}`);
  return section;
}

// The code blocks below a heading, each with its language. For what is filled into a form, these are the addresses.
async function blocks(heading) {
  const section = await textBelow(heading);
  if (FORMS.includes(heading)) return [...section.matchAll(/`(http:[^`]+)`/g)].map(([, content]) => ({ language: "form", content }));
  return [...section.matchAll(/^```(\w+)\n(.*?)^```/gms)].map(([, language, content]) => ({ language, content }));
}

function filledIn(text) {
  const placeholders = /YOUR_MCP_API_TOKEN|\$\{input:token\}|\$\{MCP_API_TOKEN\}/g;
  const addresses = /http:\/\/(?:localhost|host\.docker\.internal):8080|https:\/\/your\.name/g;
  return text.replace(placeholders, MCP_API_TOKEN).replace(addresses, MCP_URL);
}

// An entry as the applications read it.
function transport({ type, command, args, env, url, httpUrl, serverUrl, headers, ...rest }) {
  delete rest.timeout;
  delete rest.enabled;
  assert.deepEqual(rest, {}, "an entry has only what is known");
  if (command === "npx") {
    // As npx would start it, from what is installed here.
    const [, name, ...others] = args;
    const program = fileURLToPath(new URL(`node_modules/${name}/dist/proxy.js`, import.meta.url));
    const environment = { PATH, HOME, MCP_REMOTE_CONFIG_DIR: `${SANDBOX_ROOT}.mcp-remote`, ...env };
    return new StdioClientTransport({ command: process.execPath, args: [program, ...others], env: environment });
  }
  if (command) {
    assert.equal(command, "/usr/local/bin/mcp-code-sandbox");
    const environment = { PATH, HOME, SANDBOX_ROOT, DISK_FREE_FLOOR, POOL_SIZE: "0" };
    return new StdioClientTransport({ command: MCP_SERVER, args, env: environment });
  }
  assert.ok([undefined, "http", "remote", "streamable-http", "streamableHttp"].includes(type), type);
  return new StreamableHTTPClientTransport(new URL(url ?? httpUrl ?? serverUrl), { requestInit: { headers } });
}

// A transport for an address in a form, with the token as bearer.
function transportOf(address) {
  const requestInit = { headers: { Authorization: `Bearer ${MCP_API_TOKEN}` } };
  const Transport = address.endsWith("/sse") ? SSEClientTransport : StreamableHTTPClientTransport;
  return new Transport(new URL(address), { requestInit });
}

async function configuration({ language, content }) {
  const client = new Client({ name: "test", version: "1.0.0" });
  if (language === "form") {
    await client.connect(transportOf(filledIn(content)));
  } else {
    const document = (language === "yaml" ? parse : JSON.parse)(filledIn(content));
    await client.connect(transport((document.mcpServers ?? document.servers ?? document.context_servers ?? document.mcp).sandbox));
  }
  const result = await client.callTool({ name: "run_code", arguments: { language: "python", code: "print(6 * 7)" } });
  assert.equal(result.structuredContent.stdout, "42\n");
  await client.close();
}

async function program({ content }) {
  const file = new URL("documented.example.mjs", import.meta.url);
  await writeFile(file, filledIn(content));
  try {
    const { stdout } = await promisify(execFile)(process.execPath, [file.pathname]);
    assert.match(stdout, /stdout: '42\\n'/);
  } finally {
    await rm(file);
  }
}

for (const heading of process.argv.slice(2)) {
  console.log(heading);
  const timer = setTimeout(() => { throw new Error("it took too long"); }, 60_000);
  const found = await blocks(heading);
  assert.ok(found.length > 0, "there is an example");
  for (const block of found) await (block.language === "ts" ? program : configuration)(block);
  clearTimeout(timer);
}
