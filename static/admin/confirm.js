// Asks before something is done that cannot be undone.

import { byId, openDialog } from "../app/dom.js";
import { visible } from "../app/text.js";

const dialog = byId("confirm-dialog");

/** Whether the operator wants it. Whoever only presses Enter keeps what there is. */
export function confirm(title, text, yes) {
  byId("confirm-title").textContent = title;
  byId("confirm-text").textContent = visible(text);
  byId("confirm-yes").textContent = yes;
  const { promise, resolve } = Promise.withResolvers();
  byId("confirm-yes").onclick = () => { dialog.close("yes"); };
  byId("confirm-no").onclick = () => { dialog.close(); };
  dialog.onclose = () => resolve(dialog.returnValue === "yes");
  dialog.returnValue = "";
  openDialog(dialog);
  return promise;
}
