// What is kept: conversations by their keys, a page at a time, and how to delete one.

import { byId, make } from "../app/dom.js";
import { announce, notice } from "../app/notices.js";
import { ask } from "./api.js";
import { confirm } from "./confirm.js";
import { has, name, number, Rows } from "./rows.js";
import { bytes, conversationLink, time } from "./text.js";

/** Conversations of one question. */
const LIMIT = 200;

const search = byId("conversations-search");
const sort = byId("conversations-sort");
const tenant = byId("conversations-tenant");
const moreButton = byId("more-conversations");
let all = [];
let next = null;

const rows = new Rows("conversations", ({ key }) => key, (each) => [
  conversationLink(each.key), name(each.tenant), time(each.lastUsedAt), time(each.createdAt), number(bytes(each.storedBytes)),
  number(String(each.warmSandboxes)), name(each.kernels.join(", ")), number(String(each.activeRuns)),
  make("button", { type: "button", className: "button", "data-key": each.key, "aria-label": `Delete ${each.key.slice(0, 12)}` }, "Delete"),
]);

function show() {
  const found = all.filter((each) => has(each, search.value));
  rows.show(found);
  moreButton.hidden = next === null;
  // The server has no search of its own.
  byId("conversations-note").textContent = `${found.length} of ${all.length}${next === null ? "" : ", and more"}`;
}

async function load(cursor) {
  return await ask("conversations", { params: { sort: sort.value, tenant: tenant.value, limit: LIMIT, cursor } });
}

/** Asks again, for the first of them. */
export async function refreshConversations() {
  const page = await load(null);
  all = page.conversations;
  next = page.nextCursor ?? null;
  show();
}

async function more() {
  try {
    const page = await load(next);
    // In between some may have moved.
    const known = new Set(all.map(({ key }) => key));
    all = [...all, ...page.conversations.filter(({ key }) => !known.has(key))];
    next = page.nextCursor ?? null;
    show();
    announce(`${all.length} conversations`);
  } catch (error) {
    notice("problem", error.message);
  }
}

/** Asks, and deletes a conversation. Gives whether it is gone. */
export async function deleteConversation(key) {
  const text = `All files of ${key.slice(0, 12)} are deleted, and its runs and kernels end. It cannot be undone.`;
  if (!await confirm("Delete this conversation?", text, "Delete")) return false;
  try {
    await ask(`conversations/${encodeURIComponent(key)}`, { method: "DELETE" });
    announce("The conversation was deleted.");
    return true;
  } catch (error) {
    notice("problem", `The conversation was not deleted. ${error.message}`);
    return false;
  }
}

/** Connects the view. */
export function connectConversations(refresh) {
  search.oninput = show;
  sort.onchange = refresh;
  tenant.onchange = refresh;
  moreButton.onclick = more;
  byId("conversations").addEventListener("click", async (event) => {
    const key = event.target.closest("button")?.dataset.key;
    if (!key || !await deleteConversation(key)) return;
    all = all.filter((each) => each.key !== key);
    show();
    byId("view").focus();
  });
}
