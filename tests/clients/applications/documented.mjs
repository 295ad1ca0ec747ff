// The code blocks of a section below docs/clients, with the address and token of a server in them.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";

const DOCUMENTS = ["applications.md", "sdks.md"].map((name) => new URL(`../../../docs/clients/${name}`, import.meta.url));

export async function documented(heading, language, { url, token }) {
  const texts = await Promise.all(DOCUMENTS.map((document) => readFile(document, "utf8")));
  const sections = texts.flatMap((text) => text.split(/^## /m));
  const section = sections.find((text) => text.startsWith(`${heading}\n`));
  assert.ok(section, `docs/clients has no section ${heading}`);
  const block = section.match(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, "ms"));
  assert.ok(block, `${heading} has no block of ${language}`);
  return block[1].replaceAll("YOUR_MCP_API_TOKEN", token).replaceAll("$(./start.sh --token)", token)
    .replaceAll("http://localhost:8080", url);
}
