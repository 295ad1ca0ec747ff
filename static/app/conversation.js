// Which conversation this tab is in: its id is kept, can be changed, and a new one can be begun.

import { byId } from "./dom.js";
import { keepHere, keptHere } from "./store.js";
import { visibleName } from "./text.js";

const MOST_BYTES = 256;
const input = byId("conversation");

// As hard to guess as those of the server: who knows an id and the token sees its files.
function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `page_${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

let current = keptHere("conversation") || newId();

/** The id in force. */
export const conversation = () => current;

/** Says which conversation something is about, unless it is the one on the screen. */
export const unlessHere = (id) => id === current ? "" : ` (in ${visibleName(id)})`;

/** Goes to another conversation, if its id can be one. Gives whether it can. */
export function goTo(id) {
  const bytes = new TextEncoder().encode(id).length;
  const mistake = bytes === 0 || bytes > MOST_BYTES ? `A conversation id must have 1 to ${MOST_BYTES} bytes.` : "";
  input.setCustomValidity(mistake);
  input.setAttribute("aria-invalid", String(Boolean(mistake)));
  if (mistake) {
    input.reportValidity();
    return false;
  }
  const isOther = id !== current;
  current = input.value = id;
  keepHere("conversation", id);
  if (isOther) input.dispatchEvent(new CustomEvent("conversation", { bubbles: true }));
  return true;
}

/** Goes to what is in the field: a browser tells of it only once somebody has left the field. */
export const goToTyped = () => goTo(input.value);

/** Connects the field and the button. `onChange` is called when another conversation begins. */
export function connectConversation(onChange) {
  goTo(current);
  input.addEventListener("conversation", onChange);
  input.addEventListener("change", () => goTo(input.value));
  input.addEventListener("input", () => input.setCustomValidity(""));
  byId("new-conversation").onclick = () => goTo(newId());
}
