// The token: asked for once, kept for this tab only, and asked for again when the server does not take it.

import { Unauthorized } from "./api.js";
import { byId, openDialog } from "./dom.js";

const KEY = "mcp-code-sandbox-token";
const dialog = byId("token-dialog");
const input = byId("token");
const error = byId("token-error");

let waiting = null;

/** The token of this tab, or nothing. */
export const token = () => sessionStorage.getItem(KEY) ?? "";

/** Whether calls can be made without asking for a token first. */
export const hasToken = () => token() !== "" && !dialog.open;

/** Asks for a token. Resolves when one was given. */
export function askForToken(complaint = "") {
  error.textContent = complaint;
  input.value = "";
  input.setAttribute("aria-invalid", String(Boolean(complaint)));
  openDialog(dialog);
  input.focus();
  waiting ??= Promise.withResolvers();
  return waiting.promise;
}

/** Does something that needs the token, and asks for another one as long as it is not taken. */
export async function withToken(act) {
  if (!token()) await askForToken();
  for (;;) {
    try {
      return await act(token());
    } catch (failure) {
      if (!(failure instanceof Unauthorized)) throw failure;
      sessionStorage.removeItem(KEY);
      await askForToken("The server does not accept this token.");
    }
  }
}

/** Connects the dialog. `onChange` is called when a person asked for another token and gave one. */
export function connectToken(onChange) {
  byId("open-token").onclick = () => {
    // One that can be closed again, since there may be a good token already.
    askForToken().then(onChange, () => {});
  };
  byId("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    // What was pasted often has a line end.
    sessionStorage.setItem(KEY, input.value.trim());
    input.value = "";
    dialog.close();
    waiting?.resolve();
    waiting = null;
  });
  dialog.addEventListener("cancel", (event) => {
    if (!token()) event.preventDefault();
  });
  dialog.addEventListener("close", () => {
    // Closed without a new one: the old one stays.
    if (token()) waiting = null;
  });
}
