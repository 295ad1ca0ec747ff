// The token: asked for once, kept for this tab only, and asked for again when the server does not take it.

import { Unauthorized } from "./api.js";
import { byId, openDialog } from "./dom.js";
import { tab } from "./store.js";

const dialog = byId("token-dialog");
const input = byId("token");
const error = byId("token-error");
const closeButton = byId("close-token");

let waiting = null;

/** The token of this tab, or nothing. */
export const token = () => tab.kept("token", "");

/** Whether calls can be made without asking for a token first. */
export const hasToken = () => token() !== "" && !dialog.open;

/** Asks for a token. Resolves when one was given. */
export function askForToken(complaint = "") {
  error.textContent = complaint;
  input.value = "";
  input.setAttribute("aria-invalid", String(Boolean(complaint)));
  open();
  waiting ??= Promise.withResolvers();
  return waiting.promise;
}

function open() {
  // Without a token nothing else works.
  closeButton.hidden = !token();
  openDialog(dialog);
  input.focus();
}

/** Does something that needs the token, and asks for another one as long as it is not taken. */
export async function withToken(act) {
  if (!token()) await askForToken();
  for (;;) {
    const given = token();
    try {
      return await act(given);
    } catch (failure) {
      if (!(failure instanceof Unauthorized)) throw failure;
      // Another one may have been given meanwhile.
      if (token() === given) tab.keep("token", null);
      if (!token()) await askForToken("The server does not accept this token.");
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
    // What was pasted often has blanks around it.
    const given = input.value.trim();
    if (!/^[ -~]+$/.test(given)) {
      // No header can carry it.
      askForToken("A token can have unaccented letters, digits and punctuation marks only.");
      return;
    }
    tab.keep("token", given);
    input.value = "";
    dialog.close();
    waiting?.resolve();
    waiting = null;
  });
  dialog.addEventListener("close", () => {
    // Closed without a new one: the old one stays, if there is any. Browsers let Escape close every dialog.
    if (token()) waiting = null;
    else if (waiting) open();
  });
}
