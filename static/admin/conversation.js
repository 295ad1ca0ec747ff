// One conversation: what is known of it, and its files.

import { byId, make } from "../app/dom.js";
import { visible, visibleName } from "../app/text.js";
import { ask } from "./api.js";
import { deleteConversation } from "./conversations.js";
import { name, number, Rows } from "./rows.js";
import { bytes, time } from "./text.js";

let shown = "";

const files = new Rows("files", (file) => file.name, (file) => [
  { text: make("a", { href: file.url, rel: "noopener", download: "" }, visibleName(file.name)), className: "wide" },
  number(bytes(file.size)), name(file.mimeType),
]);

const fact = (label, value) => [make("dt", {}, label), make("dd", {}, visible(value || "–"))];

/** Asks about a conversation and shows it. */
export async function refreshConversation(key) {
  if (shown !== key) files.show([]);
  shown = key;
  byId("conversation-key").textContent = key;
  const found = await ask(`conversations/${encodeURIComponent(key)}`);
  const told = (at) => time(at).text ?? "";
  byId("conversation-facts").replaceChildren(
    ...fact("Tenant", found.tenant),
    ...fact("Last used", told(found.lastUsedAt)),
    ...fact("Created", told(found.createdAt)),
    ...fact("Size", bytes(found.storedBytes)),
    ...fact("Warm sandboxes", String(found.warmSandboxes)),
    ...fact("Kernels", found.kernels.join(", ")),
    ...fact("Runs in progress", String(found.activeRuns)),
  );
  files.show(found.files);
  byId("files-count").textContent = String(found.files.length);
  const skipped = found.skipped ? `${found.skipped} files have names that are not UTF-8.` : "";
  byId("files-note").textContent = [found.truncated, skipped].filter(Boolean).map(String).join(" ");
}

/** Connects the view. */
export function connectConversation() {
  byId("delete-conversation").onclick = async () => {
    if (await deleteConversation(shown)) location.hash = "conversations";
  };
}
