// A model that plays a script, in the wire forms that the applications speak: it calls `run_code` as the script says,
// notes what comes back, and ends with a sentence about that. It needs nothing but loopback.

import { createServer } from "node:http";
import * as chat from "./chat.mjs";
import * as gemini from "./gemini.mjs";
import * as messages from "./messages.mjs";
import * as responses from "./responses.mjs";
import { newId } from "./wire.mjs";

const WIRES = [responses, chat, messages, gemini];
const TOOL = "run_code";

// Starts it for one script. `before(n)` is awaited before call n is sent, and `noted` gets every request for the tool.
// A script is a list of { arguments, expect }: `expect` is a text that the model must see in the result.
export async function startModel({ script, before = async () => {}, noted = () => {} }) {
  let asked = -1;

  async function answer(request) {
    const tool = request.tools.find(({ name }) => name.endsWith(TOOL));
    if (!tool) return search(request) ?? { text: "A title" };
    const results = request.results.slice(0, script.length);
    noted({ tool, results });
    const next = results.length;
    if (next >= script.length) return { text: summary(script, results) };
    if (next > asked) {
      asked = next;
      await before(next);
    }
    return { call: { id: `call_${next}`, tool, arguments: script[next].arguments } };
  }

  const server = createServer(async (request, response) => {
    const path = new URL(request.url, "http://model").pathname;
    const wire = WIRES.find(({ serves }) => request.method === "POST" && serves(path));
    if (!wire) return other(path, response);
    try {
      const body = JSON.parse(await text(request));
      wire.write(response, await answer(wire.read(body)), body, path);
    } catch (error) {
      response.writeHead(400).end(String(error));
    }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${server.address().port}`, stop: () => server.close() };
}

// Claude Code shows the names of tools only, until the model looks one up. Requests without either are for titles and
// summaries, for which applications ask on the side.
function search({ tools }) {
  const tool = tools.find(({ name }) => name === "ToolSearch");
  const query = { query: "select:mcp__sandbox__run_code", max_results: 1 };
  return tool && { call: { id: newId("search"), tool, arguments: query } };
}

// What the model saw of each call, in words that a check can look for.
export function summary(script, results) {
  const seen = script.map(({ expect }, index) => {
    const { text = "", pictures = 0 } = results[index] ?? {};
    return `${text.includes(expect) ? "seen" : "lost"}${pictures ? `+${pictures}` : ""}`;
  });
  return `The results: ${seen.join(" ")}.`;
}

// Models are listed by some; everything else does not exist.
function other(path, response) {
  if (!path.endsWith("/models")) return response.writeHead(404).end("{}");
  const models = [{ id: "scripted", object: "model", created: 0, owned_by: "tests" }];
  response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ object: "list", data: models }));
}

async function text(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}
