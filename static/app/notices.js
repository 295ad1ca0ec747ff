// What went wrong, or is worth knowing, above the output; what is said to screen readers alone; and what buttons say of
// what they did. Screen readers say what went wrong at once; the rest is for whoever shows it to announce, together with
// what it belongs to.

import { byId, keepFocus, make } from "./dom.js";
import { isMac, visible } from "./text.js";

const place = byId("notices");

/** Shows a notice: `kind` is "problem", "note" or "good". With `again` it has a button, which takes it away. */
export function notice(kind, text, again, where = place) {
  const role = kind === "problem" ? "alert" : "note";
  const box = make("div", { className: `notice ${kind}`, role }, make("p", {}, visible(text)));
  if (again) {
    const onclick = () => keepFocus(box, where, () => {
      box.remove();
      again.act();
    });
    box.append(make("button", { type: "button", className: "button", onclick }, again.label));
  }
  where.append(box);
}

/** Takes all notices away. */
export const clearNotices = () => place.replaceChildren();

/** Says something to screen readers alone. They hear nothing from beside an open dialog. */
export function announce(text) {
  const status = document.querySelector("dialog[open] [role=status]") ?? byId("announcement");
  status.textContent = text;
}

/**
 * Copies text. Where the browser does not allow that, as without TLS, it selects `shown`, the element with the text, and
 * tells how to copy it by hand.
 */
export async function copy(text, button, shown) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    getSelection().selectAllChildren(shown);
    tellOn(button, `Press ${isMac ? "Cmd" : "Ctrl"}+C to copy`, 6000);
    return;
  }
  tellOn(button, "Copied", 1500);
}

/** Says something on a button for some milliseconds, and to screen readers. */
function tellOn(button, text, milliseconds) {
  // It may say something already.
  const label = button.dataset.label ??= button.textContent;
  button.textContent = text;
  announce(text);
  setTimeout(() => { button.textContent = label; }, milliseconds);
}
