// What calls are made with: the access token of a login, or a token that is asked for once and kept for this tab or, for
// whoever chooses that, in this browser; or nothing, where Cloudflare Access says who calls. It is asked for again when
// the server does not take it.

import { Unauthorized, Unreachable } from "./api.js";
import { byId, make, openDialog } from "./dom.js";
import { NoLogin, hostOf } from "./issuer.js";
import { accessToken, begin, canLogIn, finish, forget, hold, isLoggedIn, mayBeLetIn, places, renew } from "./login.js";
import { me } from "./rest.js";
import { browser, tab } from "./store.js";
import { visible } from "./text.js";

const dialog = byId("token-dialog");
const input = byId("token");
const error = byId("token-error");
const loginError = byId("login-error");
const loginButton = byId("log-in");
const closeButton = byId("close-token");
const keepToken = byId("keep-token");

let waiting = null;
/** Whether calls are taken without a token. */
let isLetIn = false;

/** The token of this tab or of this browser, or nothing. */
const token = () => tab.kept("token") || browser.kept("token", "");

/** Keeps a token where the person wants it, and nowhere else. */
function keep(given, inBrowser) {
  tab.keep("token", given);
  if (inBrowser || browser.kept("token")) browser.keep("token", inBrowser ? given : null);
}

const isKnown = () => isLetIn || isLoggedIn() || token() !== "";

/** Whether calls can be made without asking for a token first. */
export const hasToken = () => isKnown() && !dialog.open;

/** Asks for a token or a login. Resolves when a token was given: a login begins the page anew. */
export function askForToken(complaint = "", loginComplaint = "") {
  error.textContent = complaint;
  loginError.textContent = visible(loginComplaint);
  input.value = "";
  input.setAttribute("aria-invalid", String(Boolean(complaint)));
  open();
  waiting ??= Promise.withResolvers();
  return waiting.promise;
}

function open() {
  // Without a token nothing else works.
  closeButton.hidden = !isKnown();
  if (!dialog.open) keepToken.checked = Boolean(browser.kept("token"));
  openDialog(dialog);
  (canLogIn() && !error.textContent ? loginButton : input).focus();
}

/** How the page was entered: what there is to say against a login from which the browser came back. */
const entered = enter();

async function enter() {
  try {
    await finish();
    await hold();
  } catch (failure) {
    if (!(failure instanceof NoLogin)) throw failure;
    return failure.message;
  }
  if (mayBeLetIn() && !isLoggedIn()) {
    isLetIn = await me("").then(() => true, (failure) => {
      // Why nothing is answered is said by whatever is called next.
      if (failure instanceof Unauthorized || failure instanceof Unreachable) return false;
      throw failure;
    });
  }
  return "";
}

/** What a call is made with; null as long as there is nothing. */
async function credential() {
  if (isLoggedIn()) return await accessToken();
  return token() || (isLetIn ? "" : null);
}

/** Does something that needs a token, and asks for another one as long as it is not taken. */
export async function withToken(act) {
  let complaints = ["", await entered];
  let refused = null;
  for (;;) {
    const wasLoggedIn = isLoggedIn();
    const given = await credential();
    if (given === null) {
      if (wasLoggedIn) complaints = ["", "Your login is over: log in again."];
      await askForToken(...complaints);
      continue;
    }
    try {
      return await act(given);
    } catch (failure) {
      if (!(failure instanceof Unauthorized)) throw failure;
      complaints = await notTaken(given, failure, refused);
      refused = given;
    }
  }
}

/** Drops what the server does not take. Gives what there is to say about it, of tokens and of logins. */
async function notTaken(given, failure, before) {
  if (isLoggedIn()) {
    // One that was just renewed will not be taken another time either.
    const isHopeless = before !== null;
    if (isHopeless) forget();
    else await renew(given).catch((error) => { if (isLoggedIn()) throw error; });
    return ["", `The server does not take this login: ${failure.message}`];
  }
  isLetIn = false;
  // Another one may have been given meanwhile.
  if (token() === given) keep(null, false);
  return ["The server does not accept this token.", ""];
}

/** Goes to log in, or asks where. */
async function logIn(issuer) {
  loginError.textContent = "";
  try {
    const known = issuer ? [issuer] : await places();
    if (known.length === 1) await begin(known[0]);
    else choose(known);
  } catch (failure) {
    if (!(failure instanceof NoLogin)) throw failure;
    loginError.textContent = visible(failure.message);
  }
}

/** Has one button for each authorization server. */
function choose(issuers) {
  const buttons = issuers.map((issuer) => make("button", { type: "button", className: "button primary", onclick: () => logIn(issuer) }, `Log in at ${hostOf(issuer)}`));
  byId("log-in-places").replaceChildren(...buttons);
  buttons[0].focus();
}

/**
 * Connects the dialog. `onChange` is called when a person asked for another token and gave one, and `onIn` when somebody
 * was let in who had not been anywhere on the page yet.
 */
export function connectToken(onChange, onIn) {
  byId("login-part").hidden = !canLogIn();
  if (canLogIn()) byId("token-title").textContent = "Log in";
  loginButton.onclick = () => logIn();
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
    if (isKnown()) waiting = null;
    else if (waiting) open();
  });
}
