// The token: asked for once, kept for this tab or, for whoever chooses that, in this browser, and asked for again when
// the server does not take it.

import { Unauthorized } from "./api.js";
import { byId, openDialog } from "./dom.js";
import { browser, tab } from "./store.js";

const dialog = byId("token-dialog");
const input = byId("token");
const error = byId("token-error");
const closeButton = byId("close-token");
const keepToken = byId("keep-token");

let waiting = null;

/** The token of this tab or of this browser, or nothing. */
export const token = () => tab.kept("token") || browser.kept("token", "");

/** Keeps a token where the person wants it, and nowhere else. */
function keep(given, inBrowser) {
  tab.keep("token", given);
  if (inBrowser || browser.kept("token")) browser.keep("token", inBrowser ? given : null);
}

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
  if (!dialog.open) keepToken.checked = Boolean(browser.kept("token"));
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
      if (token() === given) keep(null, false);
      if (!token()) await askForToken("The server does not accept this token.");
    }
  }
}

/**
 * Connects the dialog. `onChange` is called when a person asked for another token and gave one, and `onIn` when somebody
 * was let in who had not been anywhere on the page yet.
 */
export function connectToken(onChange, onIn) {
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
    keep(given, keepToken.checked);
    input.value = "";
    dialog.close();
    // Else it is back where it was.
    const { activeElement, body } = document;
    if (activeElement === body || dialog.contains(activeElement)) onIn();
    waiting?.resolve();
    waiting = null;
  });
  dialog.addEventListener("close", () => {
    // Closed without a new one: the old one stays, if there is any. Browsers let Escape close every dialog.
    if (token()) waiting = null;
    else if (waiting) open();
  });
}
