// How the run stands: a word, its figures, and what is said about its end.

import { byId, make } from "./dom.js";
import { announce, notice } from "./notices.js";
import { duration, size, wordFor } from "./text.js";
import { showInTitle } from "./title.js";

const pill = byId("status");
const facts = byId("facts");
let clock = null;

function show(state, word, figures = []) {
  clearInterval(clock);
  pill.dataset.state = state;
  pill.textContent = word;
  showInTitle({ state: word });
  facts.replaceChildren(...figures.map(([title, text]) => make("span", { title }, text)));
}

/** Nothing was run yet. */
export function showIdle() {
  show("idle", "Ready");
  showInTitle({ state: "" });
}

/** There is no outcome. */
export function showProblem(word) {
  show("bad", word);
  announce(word);
}

/** A run goes on, and its time is counted from `since`. */
export function showRunning(since) {
  const time = () => duration(Math.floor((Date.now() - since) / 100) * 100);
  show("running", wordFor("running"), [["Time", time()]]);
  clock = setInterval(() => { facts.firstChild.textContent = time(); }, 100);
  announce(wordFor("running"));
}

/** The word and the figures of an outcome. */
export function showOutcome({ status, exitCode, durationMs, usage }) {
  const figures = [];
  if (exitCode !== null) figures.push(["Exit code", `exit ${exitCode}`]);
  figures.push(["Time", duration(durationMs)]);
  if (usage.peakMemoryBytes !== null) figures.push(["Peak memory", size(usage.peakMemoryBytes)]);
  if (usage.cpuMs !== null) figures.push(["Processor time", `${duration(usage.cpuMs)} CPU`]);
  show(status === "ok" ? "good" : status === "cancelled" ? "idle" : "bad", wordFor(status), figures);
}

/**
 * Says how it ended, why, and what was left out. `lack` is what is shown in the place of its output, if it has none, and
 * `button` is for what helps.
 */
export function tellOutcome({ status, exitCode, durationMs, hint, remedy, truncated, kernelRestartReason }, lack, button) {
  // What a program did itself is a problem enough, and if nothing helps, its figures and output have said the rest.
  const isProblem = status !== "ok" && status !== "error";
  const reason = isProblem || status === "ok" || remedy ? hint : null;
  if (reason) notice(isProblem ? "problem" : "note", reason, button);
  const left = truncated.stdout + truncated.stderr;
  const notes = [
    kernelRestartReason,
    left && `The program printed ${size(left)} more than the server keeps. Have it write to a file instead.`,
  ].filter(Boolean);
  for (const note of notes) notice("note", note);
  const code = exitCode === null ? "" : `, exit code ${exitCode}`;
  const said = [`${wordFor(status)}${code}, after ${duration(durationMs)}.`, lack, !isProblem && reason, ...notes];
  announce(said.filter(Boolean).join(" "));
}
