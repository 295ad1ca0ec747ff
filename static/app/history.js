// The runs of this browser, the latest first.

import { nameOf, noteConversation } from "./conversations.js";
import { byId, keepFocus, make, openDialog } from "./dom.js";
import { browser } from "./store.js";
import { duration, visibleName, wordFor } from "./text.js";

const MOST = 50;
/** Longer programs are not kept. */
const MOST_CODE = 100_000;
const dialog = byId("history-dialog");
const search = byId("history-search");

/** Remembers a run that has ended. */
export function remember({ language, code, conversationId }, { status, exitCode, durationMs }) {
  noteConversation(conversationId);
  if (code.length > MOST_CODE) return;
  const run = { at: Date.now(), language, code, conversationId, status, exitCode, durationMs };
  const runs = browser.kept("history", []).filter((other) => other.code !== code || other.language !== language);
  browser.keep("history", [run, ...runs].slice(0, MOST));
}

/** Connects button and drawer. `onPick` gets the run whose program is to be edited again. */
export function connectHistory(onPick) {
  byId("open-history").onclick = () => {
    search.value = "";
    show(onPick);
    openDialog(dialog);
  };
  search.oninput = () => {
    const found = show(onPick);
    byId("history-found").textContent = `${found} ${found === 1 ? "run" : "runs"}`;
  };
  const question = byId("clear-dialog");
  byId("clear-history").onclick = () => openDialog(question);
  byId("confirm-clear").onclick = () => {
    question.close();
    browser.keep("history", []);
    // The button for that is gone.
    keepFocus(dialog, dialog.querySelector("[data-close]"), () => show(onPick));
  };
}

/** Whether a run has all the words in it that are looked for. */
function isFound(run) {
  const text = [run.code, run.language, run.conversationId, nameOf(run.conversationId)].join("\n").toLowerCase();
  return search.value.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

/** Shows the runs that are looked for, and gives how many there are. */
function show(onPick) {
  const runs = browser.kept("history", []);
  const found = runs.filter(isFound);
  byId("no-history").hidden = runs.length > 0;
  byId("no-history-found").hidden = found.length > 0 || runs.length === 0;
  for (const part of [byId("clear-history"), search]) part.hidden = runs.length === 0;
  byId("history-list").replaceChildren(...found.map((run) => make("li", {}, entry(run, onPick))));
  return found.length;
}

function entry(run, onPick) {
  const begin = run.code.split("\n").filter((line) => line.trim()).slice(0, 3).join("\n");
  const when = new Date(run.at).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
  const facts = [run.language, wordFor(run.status), duration(run.durationMs), when];
  const onclick = () => {
    dialog.close();
    onPick(run);
  };
  return make("button", { type: "button", className: "history-entry", onclick },
    make("code", {}, begin || "(empty)"),
    make("span", { className: "facts" }, facts.join(" · ")),
    make("bdi", { className: nameOf(run.conversationId) ? "facts" : "facts mono" }, visibleName(nameOf(run.conversationId) || run.conversationId)));
}
