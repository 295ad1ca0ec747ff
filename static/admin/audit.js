// The last lines of the audit log, and those that come.

import { byId } from "../app/dom.js";
import { ask } from "./api.js";
import { has, name, number, Rows } from "./rows.js";
import { time } from "./text.js";

/** Lines that are kept on the page. */
const MOST = 1000;
const FIRST = 200;

const search = byId("audit-search");
const note = byId("audit-note");
let events = [];
let after = null;

/** What of a line is not in a column of its own; hashes of the chain say nothing to people. */
function rest({ seq, at, event, tenant, prev, ...others }) {
  return Object.entries(others).filter(([, value]) => value !== null).map(([key, value]) => `${key}: ${typeof value === "object" ? JSON.stringify(value) : value}`).join(", ");
}

const rows = new Rows("audit", ({ seq }) => seq, (line) => [
  number(String(line.seq)), time(line.at), name(line.event), name(line.tenant), { text: name(rest(line)), className: "wide" },
]);

// The latest first, since they are looked for.
const show = () => rows.show(events.filter((line) => has(line, search.value)).toReversed());

/** Asks for what is new and shows it. */
export async function refreshAudit() {
  let page;
  try {
    page = await ask("audit", { params: after === null ? { limit: FIRST } : { after } });
  } catch (error) {
    if (error.code !== "no_audit_log") throw error;
    note.textContent = "AUDIT_LOG names no file, so there is nothing to read.";
    return;
  }
  note.textContent = "";
  events = [...events, ...page.events].slice(-MOST);
  after = page.next ?? after;
  show();
}

/** Connects the view. */
export function connectAudit() {
  search.oninput = show;
}
