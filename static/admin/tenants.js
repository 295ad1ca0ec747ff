// Who may use the server, and how much each does.

import { byId, make } from "../app/dom.js";
import { ask } from "./api.js";
import { has, name, number, Rows } from "./rows.js";
import { bytes, link, span, time } from "./text.js";

const MOST = 500;

const search = byId("tenants-search");
let all = [];

const told = (at, never) => at ? time(at).text : never;

function tokenText({ name: of, expiresAt, lastUsedAt }) {
  return name(`${of} (last used ${told(lastUsedAt, "never")}${expiresAt ? `, expires ${told(expiresAt)}` : ""})`);
}

function limitText({ maxRuns, maxKernels, rateLimit, storageLimit, workspaceQuota, languages, network }) {
  const parts = [
    maxRuns !== null && `${maxRuns} runs`,
    maxKernels !== null && `${maxKernels} kernels`,
    rateLimit,
    storageLimit !== null && bytes(storageLimit),
    workspaceQuota !== null && `${bytes(workspaceQuota)} each`,
    languages?.join(", "),
    network === false && "no network",
  ];
  return name(parts.filter(Boolean).join("; "));
}

const rows = new Rows("tenants", (each) => each.name, (each) => [
  link(each.name, `conversations/${each.name}`, `Conversations of ${each.name}`),
  { text: each.tokens.map(tokenText).join(", "), className: "wide" }, { text: limitText(each.limits), className: "wide" },
  number(String(each.conversations)), number(bytes(each.storedBytes)), number(String(each.activeRuns)), number(String(each.runs24h)),
  number(span(each.cpuMs24h)),
]);

const show = () => rows.show(all.filter((each) => has(each, search.value)));

/** Asks for all of them. */
export async function allTenants() {
  const found = [];
  let cursor = null;
  do {
    const page = await ask("tenants", { params: { limit: MOST, cursor } });
    found.push(...page.tenants);
    cursor = page.nextCursor ?? null;
  } while (cursor !== null);
  return found;
}

/** Asks again and shows them. */
export async function refreshTenants() {
  all = await allTenants();
  show();
}

/** Puts the tenants into a list to choose from, and chooses one where it is given. */
export async function offerTenants(id, chosen) {
  const select = byId(id);
  const value = chosen ?? select.value;
  const names = (await allTenants()).map((each) => each.name);
  if (value && !names.includes(value)) names.push(value);
  select.replaceChildren(make("option", { value: "" }, "All"), ...names.map((each) => make("option", { value: each }, name(each))));
  select.value = value;
}

/** Connects the view. */
export function connectTenants() {
  search.oninput = show;
}
