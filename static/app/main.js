// Puts the page together: what happens when, and what is shown of it.

import { createEditor } from "../vendor/editor.js";
import { callTool, isPassing, Unreachable } from "./api.js";
import { connectConversation, conversation, goTo, goToTyped } from "./conversation.js";
import { connectConversations } from "./conversations.js";
import { connectCurl } from "./curl.js";
import { byId, keepFocus } from "./dom.js";
import { connectFiles, showFiles, showPictures } from "./files.js";
import { connectHistory, remember } from "./history.js";
import { connectLanguages, isExample, language, setRunners, showFirstExample, showLanguage } from "./languages.js";
import { announce, clearNotices, copy, notice } from "./notices.js";
import { areOptionsRight, connectOptions, options, optionsUnused, optionsUsed, setLimits } from "./options.js";
import { Output } from "./output.js";
import { connectPackages, forgetOutcome } from "./packages.js";
import { Run } from "./run.js";
import { showIdle, showOutcome, showProblem, showRunning, tellOutcome } from "./status.js";
import { keepHere, keptHere, tab } from "./store.js";
import { isMac } from "./text.js";
import { connectToken, withToken } from "./token.js";
import { connectUpload, setMostBytes } from "./upload.js";

const output = new Output(byId("output"));
const runButton = byId("run");
const stopButton = byId("stop");
let running = null;
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
  const live = new Run(output);
  const { conversationId, language, code } = wanted;
  live.begun.then(() => tab.keep("run", { id: live.id, since: live.since, conversationId, language, code }));
  clearNotices();
  // Whoever runs a program of their own again does not want the one before it back.
  if (!isUntouched(code)) forgetReplaced();
  clearResult();
  // Where the result is below the program it is out of sight.
  if (matchMedia("(max-width: 899px)").matches) byId("result").scrollIntoView();
  await follow(live, wanted, () => live.execute(wanted));
}

/** Follows the run that went on when the page was left, as for loading it again. Gives whether there is one. */
function resume() {
  const before = tab.kept("run");
  if (!before) return false;
  const live = new Run(output, before);
  clearResult();
  follow(live, before, () => live.ask());
  return true;
}

function clearResult() {
  output.clear();
  showPictures([]);
  byId("empty").hidden = true;
  byId("nothing-printed").hidden = true;
}

/** Waits for the outcome of a run and shows it. */
async function follow(live, wanted, outcome) {
  running = live;
  showButtons(true);
  showRunning(live.since);
  try {
    const ended = await outcome();
    tab.keep("run", null);
    showOutcome(ended);
    const nothing = byId("nothing-printed");
    nothing.hidden = !output.isEmpty;
    tellOutcome(ended, nothing.hidden ? null : nothing.textContent);
    remember(wanted, ended);
    showPictures(ended.files);
    const changed = ended.files.filter((file) => file.new).map((file) => file.name);
    if (wanted.conversationId === conversation()) showFiles(changed);
  } catch (error) {
    fail(live, wanted, error);
  } finally {
    running = null;
    showButtons(false);
  }
}

function fail(live, wanted, error) {
  const isForgotten = error.code === "run_not_found";
  // One that never had an id leaves the run that is kept from before, which may go on.
  if ((!live.id || isForgotten) && tab.kept("run")?.since === live.since) tab.keep("run", null);
  if (!live.id && wanted.conversationId === conversation()) optionsUnused(wanted);
  if (error.name === "AbortError") {
    showProblem("Stopped");
    return;
  }
  // With an id it has begun, and may have ended meanwhile.
  if (isForgotten) showProblem("Run not found");
  else showProblem(live.id || error instanceof Unreachable ? "Connection lost" : "Not run");
  let again;
  if (live.id && !isForgotten) again = { label: "Ask again", act: () => follow(live, wanted, () => live.ask()) };
  else if (isPassing(error)) again = { label: "Try again", act: run };
  notice("problem", error.message, again);
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
    setLimits(limits);
    setMostBytes(limits.uploadBytes);
    setRunners(runners);
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
  showFiles();
});
connectConversations();
connectToken(begin);
connectUpload();
connectFiles();
connectPackages();
connectCurl(request);
connectHistory(replace);

byId("run-key").textContent = isMac ? "⌘ ↵" : "Ctrl ↵";
runButton.onclick = run;
stopButton.onclick = stop;
byId("copy-output").onclick = ({ currentTarget }) => copy(output.text(), currentTarget, byId("output"));
byId("streams").onchange = ({ target }) => { byId("output").dataset.show = target.value; };
addEventListener("keydown", (event) => {
  const inDialog = document.querySelector("dialog[open]");
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.defaultPrevented && !inDialog) run();
});

const draft = keptHere("draft");
if (draft) edit(draft);
else showFirstExample();
begin();
