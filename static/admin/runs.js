// Runs in progress and those of the last minutes, and how to end one.

import { byId, make } from "../app/dom.js";
import { announce, notice } from "../app/notices.js";
import { wordFor } from "../app/text.js";
import { ask } from "./api.js";
import { confirm } from "./confirm.js";
import { has, name, number, Rows } from "./rows.js";
import { conversationLink, span, time } from "./text.js";

/** The most that the server lists at a time. */
const MOST = 500;

const search = byId("runs-search");
const activeOnly = byId("runs-active");
let all = { runs: [] };

const STAGES = {
  entering: "Entering", waiting_for_kernel: "Waiting for the kernel", waiting: "Waiting for a place", starting: "Starting",
};

const isRunning = ({ status }) => status === "running";

/** How a run stands, in a word. */
export const statusOf = (run) => isRunning(run) ? STAGES[run.stage] ?? wordFor("running") : wordFor(run.status);

/** The element with that word in its colour. */
function pill(run) {
  const state = isRunning(run) ? "running" : run.status === "ok" ? "good" : run.status === "cancelled" ? "idle" : "bad";
  return make("span", { className: "pill", "data-state": state }, statusOf(run));
}

const took = (run) => span(run.wallMs ?? (isRunning(run) ? Math.floor((Date.now() - new Date(run.createdAt)) / 1000) * 1000 : null));

const keyOf = ({ id, subject }) => `${subject} ${id}`;

const rows = new Rows("runs", keyOf, (run) => [
  pill(run), name(run.tenant), name(run.token ?? run.subject), name(run.language), run.conversation ? conversationLink(run.conversation) : "",
  time(run.createdAt), number(took(run)), number(span(run.cpuMs)), { text: name(run.id.slice(0, 16)), title: name(run.id) },
  isRunning(run) ? make("button", { type: "button", className: "button", "data-run": keyOf(run), "aria-label": `Cancel ${name(run.id)}` }, "Cancel") : "",
]);

function show() {
  rows.show(all.runs.filter((run) => has(run, search.value)));
  const running = all.runs.filter(isRunning).length;
  byId("runs-note").textContent = `${running} in progress${all.nextCursor ? `, of the latest ${MOST}` : ""}`;
}

/** Asks again and shows what there is. */
export async function refreshRuns() {
  all = await ask("runs", { params: { active: activeOnly.checked ? 1 : "", limit: MOST } });
  show();
}

async function cancel(run) {
  const title = "Cancel this run?";
  const text = `The ${run.language} program of ${run.token ?? run.subject} (${run.tenant}) is ended, and its caller is told so.`;
  if (!await confirm(title, text, "Cancel the run")) return;
  try {
    // Others may have chosen the same id for a run of theirs.
    const ended = await ask(`runs/${encodeURIComponent(run.id)}`, { method: "DELETE", params: { subject: run.subject } });
    announce(isRunning(ended) ? "The run is being ended." : "The run has ended.");
    await refreshRuns();
  } catch (error) {
    notice("problem", `The run was not cancelled. ${error.message}`);
  }
  byId("view").focus();
}

/** Connects the view. */
export function connectRuns(refresh) {
  search.oninput = show;
  activeOnly.onchange = refresh;
  byId("runs").addEventListener("click", (event) => {
    const key = event.target.closest("button")?.dataset.run;
    const run = all.runs.find((each) => keyOf(each) === key);
    if (run) cancel(run);
  });
}
