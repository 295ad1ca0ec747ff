// Asks before something is deleted that cannot be brought back.

import { byId, openDialog } from "./dom.js";

/** Asks, and does it if that is what is wanted. */
export function ask({ title, text, label, act }) {
  const dialog = byId("delete-dialog");
  const button = byId("confirm-delete");
  byId("delete-title").textContent = title;
  byId("delete-text").textContent = text;
  button.textContent = label;
  button.onclick = () => {
    dialog.close();
    act();
  };
  openDialog(dialog);
}
