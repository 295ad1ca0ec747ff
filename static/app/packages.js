// Packages for the programs of the conversation: what to install, how it goes, and what came of it.

import { callTool, isPassing, Unreachable } from "./api.js";
import { conversation, unlessHere } from "./conversation.js";
import { byId, keepFocus } from "./dom.js";
import { announce, notice } from "./notices.js";
import { requirements } from "./requirements.js";
import { duration, visibleName } from "./text.js";
import { withToken } from "./token.js";

const toggle = byId("toggle-packages");
const form = byId("packages");
const names = byId("package-names");
const install = byId("install");
const cancel = byId("cancel-install");
const progress = byId("install-progress");
const outcome = byId("install-outcome");
const HELP = "Package names, with versions if needed, separated by spaces, commas or line breaks. Later runs in this conversation can import them.";
let language = "python";
let allowed = false;
/** The install that goes on, so that it can be ended. */
let going = null;

/** Shows whether packages can be installed for the language that is chosen. */
export function allowPackages(name, can) {
  language = name;
  allowed = can;
  byId("package-language").textContent = name;
  byId("package-help").textContent = can ? HELP : `No packages can be installed for ${name}: the server has no package client for it.`;
  show();
}

function show() {
  names.disabled = !allowed;
  install.disabled = !allowed;
  keepFocus(form, going ? cancel : install, () => {
    install.hidden = Boolean(going);
    cancel.hidden = !going;
    progress.hidden = !going;
  });
}

/**
 * Installs for one conversation and language, whichever are on the screen when it is done. `next` is what to offer then.
 */
async function begin(wanted, next) {
  if (going) return;
  going = new AbortController();
  outcome.replaceChildren();
  show();
  announce(`Installing ${wanted.packages.join(", ")}`);
  byId("install-names").textContent = visibleName(wanted.packages.join(", "));
  const begun = performance.now();
  const clock = setInterval(() => { byId("install-time").textContent = duration(Math.floor((performance.now() - begun) / 1000) * 1000); }, 250);
  byId("install-time").textContent = "";
  const tell = (kind, text, again) => notice(kind, text + unlessHere(wanted.conversationId), again, outcome);
  try {
    const { signal } = going;
    // What is told meanwhile keeps proxies from giving up; there is nothing in it to be shown.
    const onOutput = () => {};
    const { message, durationMs } = await withToken((token) => callTool(token, "install_packages", wanted, { onOutput, signal }));
    tell("good", `${message}. It took ${duration(durationMs)}.`, next);
    announce(message);
    if (requirements(names.value, wanted.language).join() === wanted.packages.join()) names.value = "";
  } catch (error) {
    if (error.name === "AbortError") {
      tell("note", "Cancelled, unless the installation had just finished.");
      announce("Cancelled");
      return;
    }
    const done = error instanceof Unreachable ? "It is not known whether anything was installed." : "Nothing was installed.";
    tell("problem", `${done} ${error.message}`, isPassing(error) && { label: "Try again", act: () => begin(wanted, next) });
  } finally {
    clearInterval(clock);
    going = null;
    show();
  }
}

function submit(event) {
  event.preventDefault();
  if (!allowed || going) return;
  const packages = requirements(names.value, language);
  if (packages.length) begin({ conversationId: conversation(), language, packages });
  else names.focus();
}

/** Whether packages can be installed for a language, as far as is known of it. */
export const canInstall = (name) => allowed && name === language;

/** Installs what a program lacks, where it is seen. `again` is what to offer then. */
export function installFor(wanted, again) {
  if (form.hidden) toggle.click();
  begin(wanted, again);
  outcome.scrollIntoView({ block: "nearest" });
}

/** What was said is about another conversation. */
export function forgetOutcome() {
  if (!going) outcome.replaceChildren();
}

/** Connects the controls. */
export function connectPackages() {
  toggle.onclick = () => {
    const open = toggle.getAttribute("aria-expanded") !== "true";
    toggle.setAttribute("aria-expanded", String(open));
    form.hidden = !open;
    if (open) names.focus();
  };
  form.addEventListener("submit", submit);
  cancel.onclick = () => going?.abort();
  // The keys that run a program elsewhere.
  names.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event);
  });
}
