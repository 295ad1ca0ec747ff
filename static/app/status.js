// How the run stands: a word, its figures, and what is said about its end.

import { byId, make } from "./dom.js";
import { announce, notice } from "./notices.js";
import { duration, size } from "./text.js";

const WORDS = {
  ok: "Finished",
  error: "Failed",
  timeout: "Timed out",
  out_of_memory: "Out of memory",
  output_limit: "Too much output",
  disk_limit: "Disk limit",
  cancelled: "Stopped",
  engine_lost: "Engine lost",
};
/** A program that chose how it ends has said why. */
const explainsItself = (status, exitCode) => status === "error" && exitCode <= 128;

const pill = byId("status");
const facts = byId("facts");
let clock = null;

function show(state, word, figures = []) {
  clearInterval(clock);
  pill.dataset.state = state;
  pill.textContent = word;
  facts.replaceChildren(...figures.map(([title, text]) => make("span", { title }, text)));
}

/** Nothing was run yet. */
export const showIdle = () => show("idle", "Ready");

/** There is no outcome. */
export function showProblem(word) {
  show("bad", word);
  announce(word);
}

/** A run goes on, and its time is counted from `since`. */
export function showRunning(since) {
  const time = () => duration(Math.floor((Date.now() - since) / 100) * 100);
  show("running", "Running", [["Time", time()]]);
  clock = setInterval(() => { facts.firstChild.textContent = time(); }, 100);
  announce("Running");
}

/** The word and the figures of an outcome. */
export function showOutcome({ status, exitCode, durationMs, usage }) {
  const figures = [];
  if (exitCode !== null) figures.push(["Exit code", `exit ${exitCode}`]);
  figures.push(["Time", duration(durationMs)]);
  if (usage.peakMemoryBytes !== null) figures.push(["Peak memory", size(usage.peakMemoryBytes)]);
  if (usage.cpuMs !== null) figures.push(["Processor time", `${duration(usage.cpuMs)} CPU`]);
  show(status === "ok" ? "good" : status === "cancelled" ? "idle" : "bad", WORDS[status] ?? status, figures);
}

/** Says how it ended, why, and what was left out. `lack` is what is shown in the place of its output, if it has none. */
export function tellOutcome({ status, exitCode, durationMs, hint, truncated, kernelRestartReason }, lack) {
  const reason = explainsItself(status, exitCode) ? null : hint;
  if (reason && status !== "ok") notice("problem", reason);
  const left = truncated.stdout + truncated.stderr;
  const notes = [
    status === "ok" && reason,
    kernelRestartReason,
    left && `The program printed ${size(left)} more than the server keeps. Have it write to a file instead.`,
  ].filter(Boolean);
  for (const note of notes) notice("note", note);
  const code = exitCode === null ? "" : `, exit code ${exitCode}`;
  const said = [`${WORDS[status] ?? status}${code}, after ${duration(durationMs)}.`, lack, ...notes];
  announce(said.filter(Boolean).join(" "));
}
