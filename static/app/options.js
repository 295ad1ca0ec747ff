// Network, time limit and environment of the next run.

import { byId, icon, make } from "./dom.js";

const network = byId("network");
const timeout = byId("timeout");
const variables = byId("variables");
const toggle = byId("toggle-environment");

/** What `run_code` takes of it. */
export function options() {
  const environment = {};
  for (const row of variables.rows) {
    const [name, value] = row.querySelectorAll("input");
    if (name.value) environment[name.value] = value.value;
  }
  return {
    ...(network.checked && { network: true }),
    ...(Object.keys(environment).length && { environment }),
    ...(timeout.value && timeout.checkValidity() && { timeoutSeconds: Number(timeout.value) }),
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
  timeout.title = `1 to ${limits.maxTimeoutSeconds} seconds; ${limits.timeoutSeconds} when left empty`;
}

/** Sets what a run of the history had. */
export function restoreOptions({ network: wanted = false }) {
  network.checked = wanted && !network.disabled;
}

function count() {
  const set = Object.keys(options().environment ?? {}).length;
  toggle.textContent = set ? `Environment (${set})` : "Environment";
}

function addVariable() {
  const field = (label, placeholder) => make("input", {
    type: "text", className: "mono", placeholder, ariaLabel: label, autocomplete: "off", spellcheck: false, oninput: count,
  });
  const name = field("Name of the variable", "NAME");
  const value = field("Value of the variable", "value");
  const remove = make("button", { type: "button", className: "button quiet icon-only", ariaLabel: "Remove the variable" }, icon("close"));
  const row = make("tr", {}, make("td", {}, name), make("td", {}, value), make("td", {}, remove));
  remove.onclick = () => {
    row.remove();
    count();
    (variables.querySelector("tr:last-child input") ?? byId("add-variable")).focus();
  };
  variables.append(row);
  return name;
}

/** Connects the controls. */
export function connectOptions() {
  toggle.onclick = () => {
    const open = toggle.getAttribute("aria-expanded") !== "true";
    toggle.setAttribute("aria-expanded", String(open));
    byId("environment").hidden = !open;
    if (open && !variables.rows.length) addVariable().focus();
  };
  byId("add-variable").onclick = () => addVariable().focus();
  timeout.addEventListener("change", () => timeout.reportValidity());
}
