// The login of this tab: begun here, ended at an authorization server, and kept alive by its refresh token. Tokens are
// kept for the tab alone.
//
//   none ──▶ begun ──the browser comes back──▶ logged in ──▶ none: logged out, held by another page, or nothing renews it
//                                                 ▲  │
//                                                 └──┘ renewed before it expires

import { challengeOf, Denied, hostOf, metadataOf, NoLogin, pageAddress, protectedResource, register, revoke, secret, tokens } from "./issuer.js";
import { tab } from "./store.js";

/** A login is renewed when it has less than this left, in milliseconds: no call is to be late. */
const EARLY = 60_000;
/** How long the page that is left when this one is loaded again may take to let go of the login, in milliseconds. */
const LETTING_GO = 2000;

const meta = (name) => document.querySelector(`meta[name="${name}"]`)?.content;

/** Whether somebody can log in at all. */
export const canLogIn = () => meta("login-client") !== undefined;

/** Whether Cloudflare Access may let people in without a token. */
export const mayBeLetIn = () => meta("let-in-by") !== undefined;

/** Whether somebody has logged in. */
export const isLoggedIn = () => tab.kept("login") !== null;

/** At which authorization servers one can log in. */
export const places = async () => (await protectedResource()).authorization_servers;

/** Sends the browser to an authorization server. It comes back to this page. */
export async function begin(issuer) {
  const { resource, scopes_supported: scopes = [] } = await protectedResource();
  const [verifier, state] = [secret(), secret()];
  const challenge = await challengeOf(verifier);
  const metadata = await metadataOf(issuer);
  const client = meta("login-client") || await register(issuer, metadata);
  const { token_endpoint: tokenEndpoint, revocation_endpoint: revocationEndpoint } = metadata;
  const namesItself = metadata.authorization_response_iss_parameter_supported === true;
  tab.keep("login-begun", { issuer, client, resource, tokenEndpoint, revocationEndpoint, namesItself, verifier, state });
  const address = new URL(metadata.authorization_endpoint);
  const fields = {
    response_type: "code", client_id: client, redirect_uri: pageAddress(), state,
    code_challenge: challenge, code_challenge_method: "S256", resource,
    ...(scopes.length && { scope: scopes.join(" ") }),
  };
  for (const [name, value] of Object.entries(fields)) address.searchParams.set(name, value);
  location.assign(address);
}

/** Ends a login from which the browser comes back, if it does. Throws why nobody is logged in by it. */
export async function finish() {
  const answer = new URLSearchParams(location.search);
  if (!answer.has("state") || !answer.has("code") && !answer.has("error")) return;
  const begun = tab.kept("login-begun");
  // Codes are for nobody else to read, nor to be sent again.
  history.replaceState(null, "", pageAddress());
  // What somebody else makes up ends no login that was begun.
  if (begun?.state !== answer.get("state")) throw new NoLogin("The login was not begun in this tab, or is over: log in again.");
  tab.keep("login-begun", null);
  const isOther = answer.has("iss") ? answer.get("iss") !== begun.issuer : begun.namesItself;
  if (isOther) throw new NoLogin("The answer is not of the authorization server that was asked: log in again.");
  if (answer.has("error")) {
    const why = (answer.get("error_description") ?? answer.get("error")).slice(0, 200);
    throw new NoLogin(`${hostOf(begun.issuer)} did not log you in: ${why}`);
  }
  const fields = { grant_type: "authorization_code", code: answer.get("code"), redirect_uri: pageAddress(), code_verifier: begun.verifier };
  const { verifier, state, namesItself, ...login } = begun;
  keep({ ...login, id: secret() }, await tokens(login, fields));
}

/**
 * Holds the login as long as this page is there. Where another page holds it, forgets it and throws that: browsers copy
 * what a tab keeps when it is duplicated, and a refresh token that comes twice, of two pages, ends a login for both.
 */
export async function hold() {
  const login = tab.kept("login");
  if (!login) return;
  const held = Promise.withResolvers();
  const forever = new Promise(() => {});
  const take = () => {
    held.resolve();
    return forever;
  };
  const options = { signal: AbortSignal.timeout(LETTING_GO) };
  navigator.locks.request(`mcp-code-sandbox-login-${login.id}`, options, take).catch(held.reject);
  try {
    await held.promise;
  } catch (error) {
    forget();
    throw new NoLogin("This login is another tab's: log in again.", { cause: error });
  }
}

function keep(login, { access_token: accessToken, refresh_token: refreshToken, expires_in: seconds }) {
  const expires = Number.isFinite(seconds) ? Date.now() + seconds * 1000 : null;
  tab.keep("login", { ...login, accessToken, refreshToken: refreshToken ?? login.refreshToken, expires });
}

/** The access token of the login, renewed where its time is nearly over; nothing if nobody is logged in any more. */
export async function accessToken() {
  const login = tab.kept("login");
  const left = (login?.expires ?? Infinity) - Date.now();
  if (!login || left > EARLY) return login?.accessToken ?? null;
  try {
    await renew(login.accessToken);
  } catch (error) {
    if (!isLoggedIn()) return null;
    if (left <= 0) throw error;
  }
  return tab.kept("login")?.accessToken ?? null;
}

let renewing = null;

/**
 * Gets another access token in place of one that is not taken or will not be much longer. The login is over if there is
 * none. Two calls do it once: a refresh token that comes twice ends a login.
 */
export async function renew(accessToken) {
  const login = tab.kept("login");
  // Somebody has done so, or logged out.
  if (login?.accessToken !== accessToken) return;
  renewing ??= exchange(login).finally(() => { renewing = null; });
  await renewing;
}

async function exchange(login) {
  try {
    if (!login.refreshToken) throw new Denied("Your login is over: log in again.");
    const given = await tokens(login, { grant_type: "refresh_token", refresh_token: login.refreshToken });
    // Whoever has logged out meanwhile stays so.
    if (isLoggedIn()) keep(login, given);
  } catch (error) {
    if (error instanceof Denied) forget();
    throw error;
  }
}

/** Forgets the login here. */
export const forget = () => tab.keep("login", null);

/** Logs out here, and at the authorization server where that can be done. Throws if it could not be told. */
export async function logOut() {
  const login = tab.kept("login");
  forget();
  if (login) await revoke(login);
}
