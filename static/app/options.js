// Input, network, state, time limit and environment of the next run.

import { byId, icon, make } from "./dom.js";
import { announce } from "./notices.js";
import { tab } from "./store.js";

const network = byId("network");
const stateful = byId("stateful");
const restart = byId("restart");
const timeout = byId("timeout");
const variables = byId("variables");
const toggle = byId("toggle-environment");
const stdin = byId("stdin");
const toggleInput = byId("toggle-input");

/** Whether what was typed can be meant; a person is shown what cannot. An empty field is the server's own limit. */
export const areOptionsRight = () => timeout.reportValidity();

/** What `run_code` takes of it. */
export function options() {
  const environment = {};
  for (const row of variables.rows) {
    const [name, value] = row.querySelectorAll("input");
    if (name.value) environment[name.value] = value.value;
  }
  return {
    ...(stdin.value && { stdin: stdin.value }),
    ...(network.checked && { network: true }),
    ...(stateful.checked && { stateful: true }),
    ...(stateful.checked && restartIsAsked() && { restart: true }),
    ...(Object.keys(environment).length && { environment }),
    ...(timeout.value && { timeoutSeconds: Number(timeout.value) }),
  };
}

/** Shows what the server allows. */
export function setLimits(limits) {
  network.disabled = !limits.network;
  network.checked &&= limits.network;
  network.closest("label").title = limits.network
    ? "Lets the program use the internet"
    : "This server does not let programs use the network";
  timeout.max = limits.maxTimeoutSeconds;
  timeout.placeholder = limits.timeoutSeconds;
  timeout.title = `Up to ${limits.maxTimeoutSeconds} seconds, fractions included; ${limits.timeoutSeconds} if left empty`;
}

/** Shows whether the language that is chosen can keep variables. */
export function allowState(can) {
  stateful.disabled = !can;
  stateful.checked &&= can;
  stateful.closest("label").title = can
    ? "Keeps variables, functions and imports for the next run"
    : "This language keeps no variables between runs";
  showRestart();
}

const restartIsAsked = () => restart.getAttribute("aria-pressed") === "true";

function askForRestart(yes) {
  restart.setAttribute("aria-pressed", String(yes));
  restart.textContent = yes ? "Will restart" : "Restart";
}

function showRestart() {
  restart.hidden = !stateful.checked;
  if (restart.hidden) askForRestart(false);
}

/** A run was asked for: what was meant for it alone is over. */
export const optionsUsed = () => askForRestart(false);

/** It did not begin: what was meant for it alone is meant for the next try. */
export function optionsUnused({ restart: wasAsked = false }) {
  if (wasAsked && stateful.checked) askForRestart(true);
}

/** What is kept of it: for this tab only, since variables have secrets in them. */
const chosen = () => ({
  network: network.checked, stateful: stateful.checked, timeout: timeout.value, stdin: stdin.value,
  variables: Array.from(variables.rows, (row) => Array.from(row.querySelectorAll("input"), (input) => input.value)),
});

let isRestored = false;
const keepOptions = () => isRestored && tab.keep("options", chosen());

/** Brings back what was chosen before the page was loaded again, once it is known what the server allows. */
export function restoreOptions() {
  if (isRestored) return;
  isRestored = true;
  const kept = tab.kept("options");
  if (!kept) return;
  network.checked = kept.network && !network.disabled;
  stateful.checked = kept.stateful && !stateful.disabled;
  timeout.value = kept.timeout;
  stdin.value = kept.stdin ?? "";
  showInput();
  for (const texts of kept.variables) {
    const row = addVariable().closest("tr");
    row.querySelectorAll("input").forEach((input, index) => { input.value = texts[index]; });
  }
  count();
  showRestart();
}

/** What switches an option on, "network" or "stateful", unless it is on already or there is no way to. */
export function switchOn(option) {
  const { checked, disabled } = byId(option);
  if (checked || disabled) return null;
  return () => {
    byId(option).click();
    announce(`${option === "network" ? "Network" : "Stateful"} is on`);
  };
}

/** Opens what the program reads from its standard input. */
export function openInput() {
  if (byId("input").hidden) toggleInput.click();
  stdin.focus();
}

function count() {
  const set = Object.keys(options().environment ?? {}).length;
  toggle.textContent = set ? `Environment (${set})` : "Environment";
}

function showInput() {
  toggleInput.textContent = stdin.value ? "Input (given)" : "Input";
}

function addVariable() {
  const field = (label, placeholder) => make("input", {
    type: "text", className: "mono", placeholder, ariaLabel: label, autocomplete: "off", spellcheck: false, oninput: count,
  });
  const name = field("Name of the variable", "NAME");
  const value = field("Value of the variable", "value");
  const show = make("button", { type: "button", className: "button quiet icon-only", ariaLabel: "Show the value", title: "Show the value", ariaPressed: "false" }, icon("show"));
  // Values are often secrets, and screens are often seen by others. A field for passwords would be one that browsers
  // fill in and keep.
  value.classList.add("masked");
  show.onclick = () => { show.ariaPressed = String(!value.classList.toggle("masked")); };
  const remove = make("button", { type: "button", className: "button quiet icon-only", ariaLabel: "Remove the variable" }, icon("close"));
  const row = make("tr", {}, make("td", {}, name), make("td", {}, value), make("td", {}, show, remove));
  remove.onclick = () => {
    row.remove();
    count();
    keepOptions();
    (variables.querySelector("tr:last-child input") ?? byId("add-variable")).focus();
  };
  variables.append(row);
  return name;
}

/** Opens or closes what a button stands for, and returns whether it is open now. */
function opened(button, part) {
  const open = button.getAttribute("aria-expanded") !== "true";
  button.setAttribute("aria-expanded", String(open));
  byId(part).hidden = !open;
  return open;
}

/** Connects the controls. */
export function connectOptions() {
  for (const part of [network, stateful, timeout, stdin, variables]) part.addEventListener("input", keepOptions);
  toggle.onclick = () => {
    if (opened(toggle, "environment") && !variables.rows.length) addVariable().focus();
  };
  toggleInput.onclick = () => {
    if (opened(toggleInput, "input")) stdin.focus();
  };
  stdin.oninput = showInput;
  stateful.onchange = showRestart;
  restart.onclick = () => askForRestart(!restartIsAsked());
  byId("add-variable").onclick = () => addVariable().focus();
  // A minimum would be allowed itself.
  timeout.addEventListener("input", () => timeout.setCustomValidity(Number(timeout.value) > 0 || !timeout.value ? "" : "The time limit must be more than 0 seconds."));
  timeout.addEventListener("change", () => timeout.reportValidity());
}
