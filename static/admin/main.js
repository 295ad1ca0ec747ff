// Puts the operator's page together: which view is shown, by the part of the address after #, and when it asks again.

import { byId } from "../app/dom.js";
import { clearNotices, notice } from "../app/notices.js";
import { connectAudit, refreshAudit } from "./audit.js";
import { connectConversation, refreshConversation } from "./conversation.js";
import { connectConversations, refreshConversations } from "./conversations.js";
import { connectRuns, refreshRuns } from "./runs.js";
import { connectTenants, offerTenants, refreshTenants } from "./tenants.js";
import { connectToken } from "./token.js";
import { beginUsage, connectUsage, refreshUsage } from "./usage.js";

/** Milliseconds after which a view that lives asks again. */
const LIVE = 2000;
const SLOW = 15_000;
/** What the key of a conversation looks like. */
const KEY = /^[0-9a-f]{64}$/;

const VIEWS = {
  runs: { refresh: refreshRuns, every: LIVE },
  conversations: { begin: (tenant) => offerTenants("conversations-tenant", tenant), refresh: refreshConversations },
  conversation: { refresh: refreshConversation, every: SLOW, within: "conversations", takes: KEY },
  tenants: { refresh: refreshTenants, every: SLOW },
  usage: { begin: beginUsage, refresh: refreshUsage },
  audit: { refresh: refreshAudit, every: LIVE },
};

let shown = { name: "", about: undefined };
let timer = null;
/** Counts what is shown, so that what comes late for another view counts for nothing. */
let turn = 0;

/** The view of the address, and what of. An address may come from anywhere. */
function wanted() {
  const [name, about] = location.hash.slice(1).split("/");
  if (!Object.hasOwn(VIEWS, name)) return { name: "runs" };
  const { takes, within } = VIEWS[name];
  return !takes || takes.test(about) ? { name, about } : { name: within };
}

async function refresh(isFirst = false) {
  clearTimeout(timer);
  const { name, about } = shown;
  const { begin, refresh: ask, every } = VIEWS[name];
  turn += 1;
  const mine = turn;
  try {
    if (isFirst) await begin?.(about);
    await ask(about);
    if (mine === turn) clearNotices();
  } catch (error) {
    if (mine !== turn) return;
    clearNotices();
    notice("problem", error.message, { label: "Try again", act: () => refresh() });
  }
  if (mine === turn && every) timer = setTimeout(tick, every);
}

/** Asks again, unless nobody is looking. */
function tick() {
  if (document.hidden || document.querySelector("dialog[open]")) timer = setTimeout(tick, LIVE);
  else refresh();
}

function go() {
  const before = shown.name;
  shown = wanted();
  for (const name of Object.keys(VIEWS)) byId(`view-${name}`).hidden = name !== shown.name;
  const current = VIEWS[shown.name].within ?? shown.name;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${current}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  clearNotices();
  document.title = `${byId(`${shown.name}-title`).textContent} – Administration`;
  // Whoever goes on by keyboard goes on there.
  if (before) byId("view").focus();
  refresh(true);
}

connectToken();
connectRuns(() => refresh());
connectConversations(() => refresh());
connectConversation();
connectTenants();
connectUsage(() => refresh());
connectAudit();
addEventListener("hashchange", go);
go();
