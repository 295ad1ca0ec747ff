// What the wire forms have in common.

import { randomUUID } from "node:crypto";

// Answers of one id are one answer to some programs.
export const newId = (kind) => `${kind}_${randomUUID()}`;

export function json(response, value) {
  response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(value));
}

// An event stream of `[name, data]`; without a name, only data.
export function events(response, list) {
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" });
  for (const [name, data] of list) {
    if (name) response.write(`event: ${name}\n`);
    response.write(`data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`);
  }
  response.end();
}

// A result as the model sees it: its text, how many pictures, and the kinds of all that is neither.
export function result(blocks, kindOf) {
  const seen = { text: "", pictures: 0, others: [] };
  for (const block of typeof blocks === "string" ? [{ type: "text", text: blocks }] : blocks) {
    const kind = kindOf(block);
    if (kind === "text") seen.text += block.text;
    else if (kind === "picture") seen.pictures += 1;
    else seen.others.push(kind);
  }
  return seen;
}
