// Authorization servers as a page deals with them: what they say of themselves (RFC 8414), this page as a client of
// theirs (RFC 7591), and tokens for codes (RFC 6749, RFC 7636).

/** An authorization server cannot be used from this page, or will not do what was asked. The message is a sentence. */
export class NoLogin extends Error {}

/** The authorization server says that what it was sent counts for nothing. */
export class Denied extends NoLogin {}

/** The host of an address, for people. */
export const hostOf = (address) => new URL(address).host;

/** Where this page is, which is where browsers are sent back to. */
export const pageAddress = () => new URL(".", document.baseURI).href;

const isSafe = (address) => /^https:|^http:\/\/(localhost|127\.0\.0\.1|\[::1\])(:|\/|$)/.test(address ?? "");

async function ask(address, options = {}) {
  try {
    const response = await fetch(address, { cache: "no-store", redirect: "error", ...options });
    return { isOk: response.ok, status: response.status, answer: await response.json().catch(() => null) };
  } catch (error) {
    throw new NoLogin(`${hostOf(address)} cannot be asked from this page, or does not answer: give a token instead.`, { cause: error });
  }
}

/** What this server says of who issues tokens for it (RFC 9728). */
export async function protectedResource() {
  const { isOk, answer } = await ask(new URL(".well-known/oauth-protected-resource/mcp", document.baseURI).href);
  if (!isOk || !answer?.authorization_servers?.length) throw new NoLogin("The server does not say where to log in: give a token instead.");
  // A token for another address is none for this one.
  if (answer.resource !== new URL("mcp", document.baseURI).href) {
    throw new NoLogin(`Logging in works at ${answer.resource.replace(/mcp$/, "")} only: open the page there, or give a token.`);
  }
  return answer;
}

/** Where an issuer may say how it is used, as in src/oauth/discovery.rs; and where this server does below a path. */
function addresses(issuer) {
  const { origin, pathname } = new URL(issuer);
  const path = pathname.replace(/\/+$/, "");
  const [oauth, openid] = ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"];
  return new Set([oauth + path, openid + path, path + openid, path + oauth].map((each) => origin + each));
}

/** What an issuer says of itself. */
export async function metadataOf(issuer) {
  let failure = null;
  for (const address of addresses(issuer)) {
    try {
      const { isOk, answer } = await ask(address);
      if (isOk && answer?.issuer === issuer) return checked(issuer, answer);
    } catch (error) {
      failure ??= error;
    }
  }
  throw failure ?? new NoLogin(`${hostOf(issuer)} does not say how to log in: give a token instead.`);
}

/** Refuses what could send the browser or a code where nobody should be sent. */
function checked(issuer, metadata) {
  const { origin } = new URL(issuer);
  const isOwn = (address) => address === undefined || isSafe(address) && new URL(address).origin === origin;
  const own = [metadata.token_endpoint, metadata.registration_endpoint, metadata.revocation_endpoint];
  if (isSafe(metadata.authorization_endpoint) && metadata.token_endpoint && own.every(isOwn)) return metadata;
  throw new NoLogin(`${hostOf(issuer)} takes logins at addresses that this page may not ask: give a token instead.`);
}

/** The id of this page as a client that it registers. */
export async function register(issuer, metadata) {
  if (!metadata.registration_endpoint) {
    throw new NoLogin(`This page is not known to ${hostOf(issuer)}: give a token instead, or have the operator set OAUTH_PAGE_CLIENT.`);
  }
  const client = {
    client_name: "Code sandbox",
    redirect_uris: [pageAddress()],
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
    application_type: "web",
  };
  const headers = { "Content-Type": "application/json" };
  const { isOk, answer } = await ask(metadata.registration_endpoint, { method: "POST", headers, body: JSON.stringify(client) });
  if (isOk && answer?.client_id) return answer.client_id;
  throw new NoLogin(`${hostOf(issuer)} does not register this page${reason(answer)}: give a token instead.`);
}

/** What was said against a request, as a text that is not too long. */
const reason = (answer) => {
  const told = answer?.error_description ?? answer?.error;
  return typeof told === "string" ? ` (${told.slice(0, 200)})` : "";
};

const encoded = (bytes) => btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

/** A text that nobody can guess. */
export const secret = () => encoded(crypto.getRandomValues(new Uint8Array(32)));

/** The hash of a text, as authorization servers want it. */
export async function challengeOf(verifier) {
  if (!crypto.subtle) throw new NoLogin("Browsers log in over HTTPS only, or on the server's own machine: give a token instead.");
  return encoded(new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier))));
}

/** Exchanges a code or a refresh token. `login` has the client and the addresses. */
export async function tokens({ issuer, client, resource, tokenEndpoint }, fields) {
  const body = new URLSearchParams({ ...fields, client_id: client, resource });
  const { isOk, status, answer } = await ask(tokenEndpoint, { method: "POST", body });
  // No header can carry anything else.
  if (isOk && /^[!-~]+$/.test(answer?.access_token ?? "")) return answer;
  const message = `${hostOf(issuer)} gave no access token${reason(answer)}: log in again.`;
  throw status >= 400 && status < 500 && status !== 429 ? new Denied(message) : new NoLogin(message);
}

/** Ends what a token was made of (RFC 7009), where that can be done. */
export async function revoke({ client, revocationEndpoint, refreshToken, accessToken }) {
  if (!revocationEndpoint) return;
  const body = new URLSearchParams({ token: refreshToken ?? accessToken, client_id: client });
  await ask(revocationEndpoint, { method: "POST", body, keepalive: true });
}
