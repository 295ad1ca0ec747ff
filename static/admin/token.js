// The operator's token: asked for once, kept for this tab or, for whoever chooses that, in this browser.

import { byId, openDialog } from "../app/dom.js";
import { browser, tab } from "../app/store.js";

const NAME = "admin-token";
const dialog = byId("token-dialog");
const input = byId("token");
const error = byId("token-error");
const keepToken = byId("keep-token");
const forgetButton = byId("forget-token");

let waiting = null;

const kept = () => tab.kept(NAME) || browser.kept(NAME, "");

function keep(given, inBrowser) {
  tab.keep(NAME, given);
  if (inBrowser || browser.kept(NAME)) browser.keep(NAME, inBrowser ? given : null);
  forgetButton.hidden = !given;
}

/** The token, once there is one. */
export async function token() {
  if (!kept()) {
    open();
    waiting ??= Promise.withResolvers();
    await waiting.promise;
  }
  return kept();
}

/** Forgets a token that the server does not take. */
export function dropToken(given) {
  // Another one may have been given meanwhile.
  if (kept() !== given) return;
  keep(null, false);
  error.textContent = "The server does not accept this token.";
  input.setAttribute("aria-invalid", "true");
}

function open() {
  openDialog(dialog);
  input.focus();
}

/** Connects the dialog and the way out. */
export function connectToken() {
  forgetButton.hidden = !kept();
  forgetButton.onclick = () => {
    keep(null, false);
    // Nothing of what was seen is to stay.
    location.reload();
  };
  byId("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const given = input.value.trim();
    if (!/^[ -~]+$/.test(given)) {
      error.textContent = "A token can have unaccented letters, digits and punctuation marks only.";
      return;
    }
    keep(given, keepToken.checked);
    input.value = "";
    error.textContent = "";
    input.removeAttribute("aria-invalid");
    waiting?.resolve();
    waiting = null;
    dialog.close();
    byId("view").focus();
  });
  // Nothing works without one.
  dialog.addEventListener("close", () => { if (waiting) open(); });
}
