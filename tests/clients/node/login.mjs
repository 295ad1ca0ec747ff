// The official TypeScript clients and mcp-remote log in by themselves, given nothing but an address: they find out
// where, make themselves known there, send a person, and get another token when theirs is refused in mid-session.
// Usage: login.mjs WAY..., with MCP_URL and MCP_API_TOKEN in the environment, and with CLIENT_DOCUMENT if clients are to
// be known by the document at that address.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { rmSync } from "node:fs";
import { mkdtemp, readFile, readdir, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const { MCP_URL, CLIENT_DOCUMENT, PATH, HOME } = process.env;
const url = new URL(`${MCP_URL}/mcp`);
const CALLBACK = "http://127.0.0.1:1/callback";
const PERSON = fileURLToPath(new URL("person.mjs", import.meta.url));
const info = { name: "test", version: "1.0.0" };

// What a client is given that keeps everything in memory.
class Provider {
  redirectUrl = CALLBACK;
  clientMetadata = { client_name: "test", redirect_uris: [CALLBACK], grant_types: ["authorization_code", "refresh_token"] };
  clientMetadataUrl = CLIENT_DOCUMENT;
  kept = {};
  clientInformation() { return this.kept.client; }
  saveClientInformation(client) { this.kept.client = client; }
  tokens() { return this.kept.tokens; }
  saveTokens(tokens) { this.kept.tokens = tokens; }
  codeVerifier() { return this.kept.verifier; }
  saveCodeVerifier(verifier) { this.kept.verifier = verifier; }
  discoveryState() { return this.kept.discovery; }
  saveDiscoveryState(discovery) { this.kept.discovery = discovery; }
  async redirectToAuthorization(address) {
    const { stdout } = await promisify(execFile)(process.execPath, [PERSON, address.href]);
    this.cameBack = new URL(stdout.trim()).searchParams;
  }
}

// A client of one of the SDKs.
async function sdk({ Client, StreamableHTTPClientTransport, finish }) {
  const provider = new Provider();
  const transport = () => new StreamableHTTPClientTransport(url, { authProvider: provider });
  const first = transport();
  await assert.rejects(new Client(info).connect(first), /Unauthorized/);
  await finish(first, provider.cameBack);
  const client = new Client(info);
  await client.connect(transport());
  const token = {
    get: () => provider.kept.tokens.access_token,
    spoil: () => { provider.kept.tokens.access_token += "x"; },
  };
  return { client, token, id: provider.kept.client.client_id };
}

async function version1() {
  const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
  const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
  const finish = (transport, answers) => transport.finishAuth(answers.get("code"));
  return sdk({ Client, StreamableHTTPClientTransport, finish });
}

async function version2() {
  const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
  const finish = (transport, answers) => transport.finishAuth(answers);
  return sdk({ Client, StreamableHTTPClientTransport, finish });
}

// For clients that know standard input only. Where there is no desktop, it opens the browser that BROWSER names.
async function remote() {
  const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
  const { StdioClientTransport } = await import("@modelcontextprotocol/sdk/client/stdio.js");
  const directory = await mkdtemp(join(tmpdir(), "mcp-remote-"));
  process.on("exit", () => rmSync(directory, { recursive: true, force: true }));
  const args = [fileURLToPath(new URL("node_modules/mcp-remote/dist/proxy.js", import.meta.url)), url.href];
  if (CLIENT_DOCUMENT) args.push("--client-metadata-url", CLIENT_DOCUMENT);
  const { MCP_API_TOKEN } = process.env;
  const env = { PATH, HOME, BROWSER: PERSON, MCP_API_TOKEN, MCP_REMOTE_CONFIG_DIR: directory };
  const client = new Client(info);
  await client.connect(new StdioClientTransport({ command: process.execPath, args, env }));
  const below = join(directory, "mcp-remote-v1");
  const names = await readdir(below);
  const file = (name) => join(below, names.find((found) => found.endsWith(name)));
  const kept = async (name) => JSON.parse(await readFile(file(name), "utf8"));
  const token = {
    get: async () => (await kept("tokens.json")).access_token,
    spoil: async () => {
      const tokens = await kept("tokens.json");
      await writeFile(file("tokens.json"), JSON.stringify({ ...tokens, access_token: `${tokens.access_token}x` }));
    },
  };
  // It keeps what it registered as, and nothing where it did not have to.
  const registered = names.some((name) => name.endsWith("client_info.json"));
  return { client, token, id: registered ? (await kept("client_info.json")).client_id : CLIENT_DOCUMENT };
}

const ways = { sdk: version1, client: version2, "mcp-remote": remote };

async function use(way) {
  const { client, token, id } = await ways[way]();
  if (CLIENT_DOCUMENT) assert.equal(id, CLIENT_DOCUMENT);
  const { tools } = await client.listTools();
  assert.ok(tools.some((tool) => tool.name === "run_code"));
  const first = await token.get();
  await token.spoil();
  const result = await client.callTool({ name: "run_code", arguments: { language: "python", code: "print(6 * 7)" } });
  assert.equal(result.structuredContent.stdout, "42\n");
  const second = await token.get();
  assert.ok(second !== first && second !== `${first}x`, "it went on with another token");
  await client.close();
}

for (const way of process.argv.slice(2)) {
  console.log(way);
  const timer = setTimeout(() => { throw new Error("it took too long"); }, 60_000);
  await use(way);
  clearTimeout(timer);
}
process.exit(0);
