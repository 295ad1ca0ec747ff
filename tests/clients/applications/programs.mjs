// The applications: how each is configured, as docs/clients says, and started without a terminal. Accounts, updates
// and statistics are off, and the model's address is the scripted one.
//
// `steps` is a function of { url, token, model, home, directory } to a list of { command, args, env }, of which the
// last one talks to the model. `sees` is what the model must see of the three calls; "+1" is a picture. One that talks
// to no model `prints` something instead.

import { mkdir, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { documented } from "./documented.mjs";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const module = (path) => here(`node_modules/${path}`);
const CLAUDE_CODE_2 = module(`@anthropic-ai/claude-code-linux-${process.arch}/claude`);
const PROMPT = "What is 6 * 7?";

async function put(path, text) {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, text);
}

// Both ways of Claude Code: a program of its own, and a script for Node.
const claudeCode = (command, first) => async ({ model, home, ...server }) => {
  const [line] = (await documented("Claude Code", "sh", server)).match(/^claude mcp add .* http:.*$/m);
  const env = { ANTHROPIC_BASE_URL: model, ANTHROPIC_API_KEY: "none", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
    DISABLE_AUTOUPDATER: "1" };
  return [
    { command: "bash", args: ["-c", line.replace(/^claude/, '"$@"'), "claude", command, ...first], env },
    { command, args: [...first, "-p", PROMPT, "--allowedTools", "mcp__sandbox"], env },
  ];
};

async function codex({ model, home, ...server }) {
  const provider = `model = "scripted"
model_provider = "scripted"
[model_providers.scripted]
name = "scripted"
base_url = "${model}/v1"
env_key = "MODEL_KEY"
[analytics]
enabled = false
`;
  await put(`${home}/.codex/config.toml`, provider + await documented("Codex CLI", "toml", server));
  const options = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"];
  const args = [module("@openai/codex/bin/codex.js"), "exec", ...options, PROMPT];
  return [{ command: process.execPath, args, env: { MODEL_KEY: "none", MCP_API_TOKEN: server.token } }];
}

async function geminiCli({ model, home, ...server }) {
  const settings = {
    ...JSON.parse(await documented("Gemini CLI", "json", server)),
    security: { auth: { selectedType: "gemini-api-key" } },
    privacy: { usageStatisticsEnabled: false },
    general: { enableAutoUpdate: false },
  };
  await put(`${home}/.gemini/settings.json`, JSON.stringify(settings));
  const options = ["-m", "gemini-2.5-pro", "--approval-mode", "yolo", "--skip-trust"];
  const args = [module("@google/gemini-cli/bundle/gemini.js"), ...options, "-p", PROMPT];
  return [{ command: process.execPath, args, env: { GEMINI_API_KEY: "none", GOOGLE_GEMINI_BASE_URL: model } }];
}

// Programs of a section, as they stand, with OpenAI's address in the environment.
const openAi = (model) => ({
  OPENAI_BASE_URL: `${model}/v1`, OPENAI_API_KEY: "none", OPENAI_AGENTS_DISABLE_TRACING: "1",
});

const python = (heading, environment) => async ({ model, directory, ...server }) => {
  const file = `${directory}/example.py`;
  await put(file, await documented(heading, "python", server));
  return [{ command: here(`${environment}/.venv/bin/python`), args: [file], env: openAi(model) }];
};

async function langChainJs({ model, ...server }) {
  // Beside the packages that it imports.
  const file = module("documented.mjs");
  await put(file, await documented("LangChain, JavaScript", "ts", server));
  return [{ command: process.execPath, args: [file], env: openAi(model) }];
}

// A client without a model.
async function inspector(server) {
  const text = await documented("MCP Inspector", "sh", server);
  const lines = text.replace("npx @modelcontextprotocol/inspector", '"$@"');
  const program = module("@modelcontextprotocol/inspector/clients/launcher/build/index.js");
  return [{ command: "bash", args: ["-c", lines, "inspector", process.execPath, program], env: {} }];
}

export const programs = {
  "Claude Code 2": { sees: "seen seen+1 seen", steps: claudeCode(CLAUDE_CODE_2, []) },
  "Claude Code 1": { sees: "seen seen+1 seen", steps: claudeCode(process.execPath, [module("claude-code-1/cli.js")]) },
  "Codex CLI": { sees: "seen seen+1 seen", steps: codex },
  "Gemini CLI": { sees: "seen seen+1 seen", steps: geminiCli },
  "LangChain, Python": { sees: "seen seen+1 seen", steps: python("LangChain, Python", "langchain") },
  "LangChain, JavaScript": { sees: "seen seen+1 seen", steps: langChainJs },
  "OpenAI Agents SDK": { sees: "seen seen+1 seen", steps: python("OpenAI Agents SDK", "agents") },
  "MCP Inspector": { prints: String.raw`"stdout": "42\n"`, steps: inspector },
};
