// Puts the page together: what happens when, and what is shown of it.

import { createEditor } from "../editor/editor.js";
import { adviceFor } from "./advice.js";
import { callTool, isPassing } from "./api.js";
import { connectConversation, conversation, goTo, goToTyped } from "./conversation.js";
import { connectConversations } from "./conversations.js";
import { connectCurl } from "./curl.js";
import { byId, keepFocus } from "./dom.js";
import { connectFiles, showFiles } from "./files.js";
import { connectHistory, remember } from "./history.js";
import { connectLanguages, isExample, language, setRunners, showFirstExample, showLanguage } from "./languages.js";
import { announce, clearNotices, notice } from "./notices.js";
import { areOptionsRight, connectOptions, options, optionsUnused, optionsUsed, restoreOptions, setLimits } from "./options.js";
import { connectPackages, forgetOutcome } from "./packages.js";
import { beginResult, connectResult, endResult, markOld, output, showWhose } from "./result.js";
import { Run } from "./run.js";
import { showIdle, showOutcome, showProblem, showRunning, tellOutcome } from "./status.js";
import { keepHere, keptHere, tab } from "./store.js";
import { isMac, wordFor } from "./text.js";
import { connectToken, withToken } from "./token.js";
import { connectUpload, setMostBytes } from "./upload.js";
import { connectWho, showWho } from "./who.js";

/** Milliseconds that a run has to begin before what is shown is said to be of another one. */
const PATIENCE = 1000;
const runButton = byId("run");
const stopButton = byId("stop");
let running = null;
/** Asks for the run that goes on without us, if there is one. */
let lost = null;
/** What somebody wrote and what took its place, `written` and `by`, as long as that can be undone. */
let replaced = null;

const editor = createEditor({
  host: byId("editor"),
  labels: { name: "Program", description: "Press Escape and then Tab to leave the editor. Press Control and Enter, or Command and Enter, to run the program." },
  onRun: () => run(),
  onChange: () => keepDraft(),
});

const keepDraft = () => keepHere("draft", { language: language(), code: editor.text() });

/** What is to be run, or nothing as long as a field is wrong, which is shown then. */
function request() {
  if (!goToTyped() || !areOptionsRight()) return null;
  return { conversationId: conversation(), language: language(), code: editor.text(), ...options() };
}

/** Shows which of Run and Stop there is. */
function showButtons(isRunning) {
  keepFocus(runButton.parentElement, isRunning ? stopButton : runButton, () => {
    runButton.hidden = isRunning;
    stopButton.hidden = !isRunning;
  });
  stopping(false);
}

// A button that is disabled loses the keyboard's place.
const stopping = (yes) => stopButton.setAttribute("aria-disabled", String(yes));

async function run() {
  if (running || runButton.disabled) return;
  const wanted = request();
  if (!wanted) return;
  optionsUsed();
  const { conversationId, language, code } = wanted;
  const live = new Run(output, () => beginResult(conversationId));
  const before = tab.kept("run");
  tab.keep("run", { id: live.id, since: live.since, conversationId, language, code });
  clearNotices();
  // Whoever runs a program of their own again does not want the one before it back.
  if (!isUntouched(code)) forgetReplaced();
  // Where the result is below the program it is out of sight.
  if (matchMedia("(max-width: 899px)").matches) byId("result").scrollIntoView();
  await follow(live, wanted, () => live.execute(wanted));
  // One that never began takes the place of none.
  if (!live.hasBegun && tab.kept("run")?.id === live.id) tab.keep("run", before);
}

/** Follows the run that went on when the page was left, as for loading it again. Gives whether there is one. */
function resume() {
  const before = tab.kept("run");
  if (!before) return false;
  const live = new Run(output, () => beginResult(before.conversationId), before);
  follow(live, before, () => live.ask());
  return true;
}

/** Waits for the outcome of a run and shows it. */
async function follow(live, wanted, outcome) {
  running = live;
  lost = null;
  showButtons(true);
  showRunning(live.since);
  const slow = setTimeout(() => markOld(!live.hasBegun), PATIENCE);
  try {
    const ended = await outcome();
    tab.keep("run", null);
    showOutcome(ended);
    tellOutcome(ended, endResult(ended), adviceFor(ended.remedy, wanted, run));
    remember(wanted, ended);
    const changed = ended.files.filter((file) => file.new).map((file) => file.name);
    if (wanted.conversationId === conversation()) showFiles(changed);
  } catch (error) {
    fail(live, wanted, error);
  } finally {
    clearTimeout(slow);
    running = null;
    showButtons(false);
  }
}

/** Says why there is no outcome, and offers what may help. */
function fail(live, wanted, error) {
  const { hasBegun } = live;
  const isForgotten = hasBegun && error.code === "run_not_found";
  if (isForgotten) tab.keep("run", null);
  if (!hasBegun) {
    // What is shown is still of the run before.
    markOld(true);
    if (wanted.conversationId === conversation()) optionsUnused(wanted);
  }
  if (error.name === "AbortError") {
    showProblem(wordFor("cancelled"));
    return;
  }
  if (isForgotten) showProblem("Run not found");
  else showProblem(hasBegun ? "Connection lost" : "Not run");
  let again;
  if (hasBegun && !isForgotten) {
    lost = () => follow(live, wanted, () => live.ask());
    again = { label: "Ask again", act: () => lost?.() };
  } else if (isPassing(error)) {
    again = { label: "Try again", act: () => tryAgain(live, wanted) };
  }
  notice("problem", error.message, again);
}

/** Runs what is to be run now, unless the run that was asked for has begun after all: then that is followed. */
async function tryAgain(live, wanted) {
  if (live.hasBegun === null && await live.isThere()) follow(live, wanted, () => live.ask());
  else run();
}

/** Asks for a run that goes on as soon as the connection may be back. */
function askForLost() {
  if (!lost || running || document.hidden || !navigator.onLine) return;
  clearNotices();
  lost();
}

async function stop() {
  if (stopButton.ariaDisabled === "true") return;
  stopping(true);
  announce("Stopping");
  try {
    await running?.stop();
  } catch (error) {
    stopping(false);
    notice("problem", `The run was not stopped. ${error.message}`);
  }
}

/** Asks the server what it has. Nothing works before that. */
async function begin() {
  clearNotices();
  try {
    const { runners, limits, unavailable } = await withToken((token) => callTool(token, "list_runners", {}));
    showWho();
    setLimits(limits);
    setMostBytes(limits.uploadBytes);
    setRunners(runners);
    restoreOptions();
    runButton.disabled = runners.length === 0;
    if (unavailable) notice("problem", `Programs cannot be run now: ${unavailable}`, { label: "Try again", act: begin });
    else if (!runners.length) notice("problem", "This server has no languages yet. Its operator can build them with ./build.sh.", { label: "Try again", act: begin });
    if (!running && !resume()) showIdle();
    showFiles();
  } catch (error) {
    showProblem("No connection");
    notice("problem", error.message, { label: "Try again", act: begin });
  }
}

/** Puts a program into the editor. */
function edit({ language: name, code }) {
  showLanguage(name);
  editor.setText(code);
}

/** Whether nobody has changed what the page put into the editor. */
const isUntouched = (code) => isExample(code) || code === replaced?.by.code;

/** Puts a program in place of another, in its own conversation if it has one, and offers to undo that. */
function replace(next) {
  const now = { language: language(), code: editor.text(), conversationId: conversation() };
  // Whoever looks at several programs wants what they wrote back, not the last one they looked at.
  const written = isUntouched(now.code) || now.code === next.code ? replaced?.written : now;
  if (next.conversationId) goTo(next.conversationId);
  edit(next);
  editor.focus();
  forgetReplaced();
  if (written) offerUndo(written);
}

function offerUndo(written) {
  replaced = { written, by: { code: editor.text(), conversationId: conversation() } };
  const text = "Your program was replaced.";
  // Beside the editor, since the result may be out of sight, and its notices go with the next run.
  notice("note", text, { label: "Undo", act: undo }, byId("replaced"));
  announce(`${text} The Undo button brings it back.`);
}

/** Brings back what was replaced. What was changed since is replaced in turn, and not lost either. */
function undo() {
  const { written, by } = replaced;
  replaced = { written: null, by };
  // Whoever went on to another conversation stays there.
  const { conversationId, ...program } = written;
  replace(conversation() === by.conversationId ? written : program);
  if (!replaced) announce("Your program is back.");
}

function forgetReplaced() {
  replaced = null;
  byId("replaced").replaceChildren();
}

connectLanguages(editor, keepDraft, replace);
connectOptions();
connectConversation(() => {
  clearNotices();
  forgetOutcome();
  showWhose();
  showFiles();
});
connectConversations();
connectResult();
connectToken(begin, editor.focus);
connectWho(begin);
connectUpload();
connectFiles();
connectPackages();
connectCurl(request);
connectHistory(replace);

byId("run-key").textContent = isMac ? "⌘ ↵" : "Ctrl ↵";
runButton.onclick = run;
stopButton.onclick = stop;
addEventListener("keydown", (event) => {
  const inDialog = document.querySelector("dialog[open]");
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.defaultPrevented && !inDialog) run();
});

addEventListener("online", askForLost);
document.addEventListener("visibilitychange", askForLost);

const draft = keptHere("draft");
if (draft) edit(draft);
else showFirstExample();
begin();
