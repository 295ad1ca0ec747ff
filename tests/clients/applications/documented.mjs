// The code blocks of a section of docs/clients.md, with the address and token of a server in them.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";

const DOCUMENT = new URL("../../../docs/clients.md", import.meta.url);

export async function documented(heading, language, { url, token }) {
  const sections = (await readFile(DOCUMENT, "utf8")).split(/^## /m);
  const section = sections.find((text) => text.startsWith(`${heading}\n`));
  assert.ok(section, `docs/clients.md has no section ${heading}`);
  const block = section.match(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, "ms"));
  assert.ok(block, `${heading} has no block of ${language}`);
  return block[1].replaceAll("YOUR_MCP_API_TOKEN", token).replaceAll("$(./start.sh --token)", token)
    .replaceAll("http://localhost:8080", url);
}
