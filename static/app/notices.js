// What went wrong, or is worth knowing, above the output. Screen readers say what went wrong at once; the rest is for
// whoever shows it to announce, together with what it belongs to.

import { byId, keepFocus, make } from "./dom.js";
import { visible } from "./text.js";

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

/** Says something to screen readers alone. */
export const announce = (text) => { byId("announcement").textContent = text; };
