// app/main.js
import { createEditor } from "../editor/editor.js";

// app/events.js
async function* readEvents(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  let data = [];
  for (; ; ) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (buffer + value).split(/\r\n|\n|\r(?!$)/);
    buffer = lines.pop();
    for (const line of lines) {
      if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
      else if (line === "" && data.length) {
        const event = data.join("\n");
        data = [];
        if (event) yield JSON.parse(event);
      }
    }
  }
}

// app/api.js
var BROKEN = "The connection to the server was lost.";
var OUTPUT = "mcp-code-sandbox/output";
var RUN = "mcp-code-sandbox/run";
var authorization = (token2) => token2 ? { Authorization: `Bearer ${token2}` } : {};
var Unauthorized = class extends Error {
};
var Unreachable = class extends Error {
};
var Refused = class extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
};
var TooMany = class extends Error {
  constructor(seconds) {
    super(`The server is getting too many requests. Wait ${seconds ? `${seconds} s` : "a moment"}, then try again.`);
    this.seconds = seconds;
  }
};
var PASSING = ["busy", "session_busy", "install_busy"];
var isPassing = (error2) => error2 instanceof Unreachable || error2 instanceof TooMany || PASSING.includes(error2.code);
var lastId = 0;
function toolCall(name, args) {
  lastId += 1;
  return { jsonrpc: "2.0", id: lastId, method: "tools/call", params: { name, arguments: args } };
}
var endpoint = () => new URL("mcp", document.baseURI);
async function callTool(token2, name, args, { onOutput, offset = 0, runId, signal } = {}) {
  const message = toolCall(name, args);
  if (onOutput) message.params._meta = { progressToken: message.id, [OUTPUT]: { offset }, [RUN]: runId };
  let response;
  try {
    response = await fetch(endpoint(), {
      method: "POST",
      headers: {
        ...authorization(token2),
        "Content-Type": "application/json",
        Accept: onOutput ? "application/json, text/event-stream" : "application/json"
      },
      body: JSON.stringify(message),
      cache: "no-store",
      signal
    });
  } catch (error2) {
    throw Object.assign(lost(error2, "The server does not answer."), { isUnsent: true });
  }
  return result(await answer(response, message.id, onOutput));
}
async function answer(response, id, onOutput) {
  if (!response.headers.get("content-type")?.startsWith("text/event-stream")) return body(response.status, await text(response), response.headers.get("retry-after"));
  try {
    for await (const message of readEvents(response.body)) {
      if (message.id === id) return message;
      const output2 = message.params?._meta?.[OUTPUT];
      if (output2) onOutput?.(output2);
    }
  } catch (error2) {
    throw lost(error2, BROKEN);
  }
  throw new Unreachable(BROKEN);
}
async function text(response) {
  try {
    return await response.text();
  } catch (error2) {
    throw lost(error2, BROKEN);
  }
}
var lost = (error2, message) => error2.name === "AbortError" ? error2 : new Unreachable(message, { cause: error2 });
function body(status, content, retryAfter) {
  if (status === 401) throw new Unauthorized(object(content)?.error?.message ?? "The token is missing or wrong.");
  if (status === 429) throw new TooMany(Number(retryAfter) || 0);
  const message = object(content);
  const failure = message?.error;
  if (typeof failure?.code === "string") throw new Refused(failure.code, failure.message);
  if (isOfProxy(status)) throw new Unreachable(`The server does not answer (${status}).`);
  if (typeof failure?.code === "number") throw new Refused("protocol", failure.message);
  const isSuccess = status === 200 || status === 201;
  if (!isSuccess || !message) {
    throw new Refused("no_json", `The server gave an unexpected answer (${status}).`);
  }
  return message;
}
function failed(...answer2) {
  try {
    body(...answer2);
  } catch (error2) {
    return error2;
  }
  return new Refused("no_json", "The server gave an unexpected answer.");
}
var isOfProxy = (status) => status >= 502 && status <= 504 || status >= 520 && status <= 530;
function result(message) {
  if (message.error) throw new Refused("protocol", message.error.message);
  const { structuredContent, content, isError } = message.result ?? {};
  const answer2 = structuredContent ?? object(content?.[0]?.text);
  if (!answer2) throw new Refused("protocol", "The server gave an answer that this page does not understand.");
  if (isError) throw new Refused(answer2.code, answer2.message);
  return answer2;
}
function object(text2) {
  try {
    return JSON.parse(text2);
  } catch {
    return null;
  }
}

// app/dom.js
var byId = (id) => document.getElementById(id);
function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}
function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `#icon-${name}`);
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  svg.append(use);
  return svg;
}
function keepFocus(place2, next, change) {
  const had = place2.contains(document.activeElement);
  change();
  const { activeElement, body: body2 } = document;
  if (had && (activeElement === body2 || !activeElement.checkVisibility())) next.focus();
}
function openDialog(dialog5) {
  if (!dialog5.dataset.ready) {
    dialog5.dataset.ready = "yes";
    for (const button of dialog5.querySelectorAll("[data-close]")) button.onclick = () => dialog5.close();
    dialog5.addEventListener("click", (event) => {
      if (event.target === dialog5 && dialog5.querySelector("[data-close]:not([hidden])")) dialog5.close();
    });
  }
  if (!dialog5.open) dialog5.showModal();
}

// app/store.js
var nameOf = (name) => `mcp-code-sandbox-${name}`;
var Store = class {
  #storage;
  #refused = /* @__PURE__ */ new Map();
  /** `storage` gives it: where cookies are blocked, browsers refuse to name it. */
  constructor(storage) {
    this.#storage = storage;
  }
  /** A kept value, or the given one where there is none or it cannot be read. */
  kept(name, otherwise = null) {
    try {
      return JSON.parse(this.#refused.get(name) ?? this.#storage().getItem(nameOf(name))) ?? otherwise;
    } catch {
      return otherwise;
    }
  }
  /** Keeps a value in place of another. Nothing, `null`, is one too. */
  keep(name, value) {
    const text2 = JSON.stringify(value);
    this.#refused.delete(name);
    try {
      this.#storage().setItem(nameOf(name), text2);
    } catch {
      this.#refused.set(name, text2);
    }
  }
};
var browser = new Store(() => localStorage);
var tab = new Store(() => sessionStorage);
var keptHere = (name) => tab.kept(name) ?? browser.kept(name);
function keepHere(name, value) {
  tab.keep(name, value);
  browser.keep(name, value);
}

// app/text.js
var isMac = navigator.platform.startsWith("Mac");
var CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;
var DIRECTIONS = /[\u202a-\u202e\u2066-\u2069]/g;
var IN_NAMES = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;
var codePoint = (character) => `‹U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}›`;
function visible(text2) {
  return text2.replace(CONTROLS, picture).replace(DIRECTIONS, codePoint);
}
var picture = (character) => character < " " ? String.fromCharCode(9216 + character.charCodeAt(0)) : codePoint(character);
var visibleName = (name) => name.replace(IN_NAMES, codePoint);
function size(bytes) {
  if (bytes < 1e3) return `${bytes} ${bytes === 1 ? "byte" : "bytes"}`;
  const units = ["kB", "MB", "GB"];
  let value = bytes / 1e3;
  let unit = 0;
  for (; value >= 999.5 && unit < units.length - 1; unit += 1) value /= 1e3;
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}
function duration(milliseconds) {
  if (milliseconds < 1e3) return `${Math.round(milliseconds)} ms`;
  const seconds = milliseconds / 1e3;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
}
function wordFor(status) {
  if (status === "ok") return "OK";
  const words = status.replaceAll("_", " ");
  return words[0].toUpperCase() + words.slice(1);
}

// app/conversation.js
var MOST_BYTES = 256;
var input = byId("conversation");
function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `page_${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
var current = keptHere("conversation") || newId();
var conversation = () => current;
var unlessHere = (id) => id === current ? "" : ` (in ${visibleName(id)})`;
function goTo(id) {
  const bytes = new TextEncoder().encode(id).length;
  const mistake2 = bytes === 0 || bytes > MOST_BYTES ? `A conversation id must have 1 to ${MOST_BYTES} bytes.` : "";
  input.setCustomValidity(mistake2);
  input.setAttribute("aria-invalid", String(Boolean(mistake2)));
  if (mistake2) {
    input.reportValidity();
    return false;
  }
  const isOther = id !== current;
  current = input.value = id;
  keepHere("conversation", id);
  if (isOther) input.dispatchEvent(new CustomEvent("conversation", { bubbles: true }));
  return true;
}
var goToTyped = () => goTo(input.value);
function connectConversation(onChange) {
  goTo(current);
  input.addEventListener("conversation", onChange);
  input.addEventListener("change", () => goTo(input.value));
  input.addEventListener("input", () => input.setCustomValidity(""));
  byId("new-conversation").onclick = () => goTo(newId());
}

// app/notices.js
var place = byId("notices");
function notice(kind, text2, again, where = place) {
  const role = kind === "problem" ? "alert" : "note";
  const box3 = make("div", { className: `notice ${kind}`, role }, make("p", {}, visible(text2)));
  if (again) {
    const onclick = () => keepFocus(box3, where, () => {
      box3.remove();
      again.act();
    });
    box3.append(make("button", { type: "button", className: "button", onclick }, again.label));
  }
  where.append(box3);
}
var clearNotices = () => place.replaceChildren();
function announce(text2) {
  const status = document.querySelector("dialog[open] [role=status]") ?? byId("announcement");
  status.textContent = text2;
}
async function copy(text2, button, shown3) {
  try {
    await navigator.clipboard.writeText(text2);
  } catch {
    getSelection().selectAllChildren(shown3);
    tellOn(button, `Press ${isMac ? "Cmd" : "Ctrl"}+C to copy`, 6e3);
    return;
  }
  tellOn(button, "Copied", 1500);
}
function tellOn(button, text2, milliseconds) {
  const label = button.dataset.label ??= button.textContent;
  button.textContent = text2;
  announce(text2);
  setTimeout(() => {
    button.textContent = label;
  }, milliseconds);
}

// app/requirements.js
var COMMAND = /^\s*[!%$]?\s*(?:python3?\s+-m\s+)?(?:uv\s+)?(?:pip3?|npm|bun|pnpm|yarn)\s+(?:install|add|i)\s/;
var COMMENT = /(?:^|\s)#.*$/;
var WORD = /(?:\[[^\]]*\]|[^\s,])+/g;
var BEGINS_WITH_OPERATOR = /^(?:[<>=!~^]|@$)/;
var ENDS_WITH_OPERATOR = /[<>=!~^@]$/;
function requirements(text2, language3) {
  const list3 = [];
  for (const line of text2.split("\n")) {
    let begun = false;
    for (const [word] of line.replace(COMMENT, "").replace(COMMAND, "").matchAll(WORD)) {
      const last = begun ? list3.at(-1) : "";
      if (ENDS_WITH_OPERATOR.test(last)) list3[list3.length - 1] += word;
      else if (last && BEGINS_WITH_OPERATOR.test(word)) list3[list3.length - 1] += joint(last, word, language3) + word;
      else list3.push(word);
      begun = true;
    }
  }
  return list3;
}
function joint(before, word, language3) {
  if (word === "@") return "";
  if (language3 === "typescript") return before.lastIndexOf("@") > 0 ? " " : "@";
  return /[<>=!~]/.test(before) ? "," : "";
}

// app/issuer.js
var NoLogin = class extends Error {
};
var Denied = class extends NoLogin {
};
var hostOf = (address3) => new URL(address3).host;
var pageAddress = () => new URL(".", document.baseURI).href;
var isSafe = (address3) => /^https:|^http:\/\/(localhost|127\.0\.0\.1|\[::1\])(:|\/|$)/.test(address3 ?? "");
async function ask(address3, options2 = {}) {
  try {
    const response = await fetch(address3, { cache: "no-store", redirect: "error", ...options2 });
    return { isOk: response.ok, status: response.status, answer: await response.json().catch(() => null) };
  } catch (error2) {
    throw new NoLogin(`${hostOf(address3)} cannot be asked from this page, or does not answer: give a token instead.`, { cause: error2 });
  }
}
async function protectedResource() {
  const { isOk, answer: answer2 } = await ask(new URL(".well-known/oauth-protected-resource/mcp", document.baseURI).href);
  if (!isOk || !answer2?.authorization_servers?.length) throw new NoLogin("The server does not say where to log in: give a token instead.");
  if (answer2.resource !== new URL("mcp", document.baseURI).href) {
    throw new NoLogin(`Logging in works at ${answer2.resource.replace(/mcp$/, "")} only: open the page there, or give a token.`);
  }
  return answer2;
}
function addresses(issuer) {
  const { origin, pathname } = new URL(issuer);
  const path = pathname.replace(/\/+$/, "");
  const [oauth, openid] = ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"];
  return new Set([oauth + path, openid + path, path + openid, path + oauth].map((each) => origin + each));
}
async function metadataOf(issuer) {
  let failure = null;
  for (const address3 of addresses(issuer)) {
    try {
      const { isOk, answer: answer2 } = await ask(address3);
      if (isOk && answer2?.issuer === issuer) return checked(issuer, answer2);
    } catch (error2) {
      failure ??= error2;
    }
  }
  throw failure ?? new NoLogin(`${hostOf(issuer)} does not say how to log in: give a token instead.`);
}
function checked(issuer, metadata) {
  const { origin } = new URL(issuer);
  const isOwn = (address3) => address3 === void 0 || isSafe(address3) && new URL(address3).origin === origin;
  const own2 = [metadata.token_endpoint, metadata.registration_endpoint, metadata.revocation_endpoint];
  if (isSafe(metadata.authorization_endpoint) && metadata.token_endpoint && own2.every(isOwn)) return metadata;
  throw new NoLogin(`${hostOf(issuer)} takes logins at addresses that this page may not ask: give a token instead.`);
}
async function register(issuer, metadata) {
  if (!metadata.registration_endpoint) {
    throw new NoLogin(`This page is not known to ${hostOf(issuer)}: give a token instead, or have the operator set OAUTH_PAGE_CLIENT.`);
  }
  const client = {
    client_name: "Code sandbox",
    redirect_uris: [pageAddress()],
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
    application_type: "web"
  };
  const headers = { "Content-Type": "application/json" };
  const { isOk, answer: answer2 } = await ask(metadata.registration_endpoint, { method: "POST", headers, body: JSON.stringify(client) });
  if (isOk && answer2?.client_id) return answer2.client_id;
  throw new NoLogin(`${hostOf(issuer)} does not register this page${reason(answer2)}: give a token instead.`);
}
var reason = (answer2) => {
  const told = answer2?.error_description ?? answer2?.error;
  return typeof told === "string" ? ` (${told.slice(0, 200)})` : "";
};
var encoded = (bytes) => btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
var secret = () => encoded(crypto.getRandomValues(new Uint8Array(32)));
async function challengeOf(verifier) {
  if (!crypto.subtle) throw new NoLogin("Browsers log in over HTTPS only, or on the server's own machine: give a token instead.");
  return encoded(new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier))));
}
async function tokens({ issuer, client, resource, tokenEndpoint }, fields) {
  const body2 = new URLSearchParams({ ...fields, client_id: client, resource });
  const { isOk, status, answer: answer2 } = await ask(tokenEndpoint, { method: "POST", body: body2 });
  if (isOk && /^[!-~]+$/.test(answer2?.access_token ?? "")) return answer2;
  const message = `${hostOf(issuer)} gave no access token${reason(answer2)}: log in again.`;
  throw status >= 400 && status < 500 && status !== 429 ? new Denied(message) : new NoLogin(message);
}
async function revoke({ client, revocationEndpoint, refreshToken, accessToken: accessToken2 }) {
  if (!revocationEndpoint) return;
  const body2 = new URLSearchParams({ token: refreshToken ?? accessToken2, client_id: client });
  await ask(revocationEndpoint, { method: "POST", body: body2, keepalive: true });
}

// app/login.js
var EARLY = 6e4;
var LETTING_GO = 2e3;
var meta = (name) => document.querySelector(`meta[name="${name}"]`)?.content;
var canLogIn = () => meta("login-client") !== void 0;
var mayBeLetIn = () => meta("let-in-by") !== void 0;
var isLoggedIn = () => tab.kept("login") !== null;
var places = async () => (await protectedResource()).authorization_servers;
async function begin(issuer) {
  const { resource, scopes_supported: scopes = [] } = await protectedResource();
  const [verifier, state] = [secret(), secret()];
  const challenge = await challengeOf(verifier);
  const metadata = await metadataOf(issuer);
  const client = meta("login-client") || await register(issuer, metadata);
  const { token_endpoint: tokenEndpoint, revocation_endpoint: revocationEndpoint } = metadata;
  const namesItself = metadata.authorization_response_iss_parameter_supported === true;
  tab.keep("login-begun", { issuer, client, resource, tokenEndpoint, revocationEndpoint, namesItself, verifier, state });
  const address3 = new URL(metadata.authorization_endpoint);
  const fields = {
    response_type: "code",
    client_id: client,
    redirect_uri: pageAddress(),
    state,
    code_challenge: challenge,
    code_challenge_method: "S256",
    resource,
    ...scopes.length && { scope: scopes.join(" ") }
  };
  for (const [name, value] of Object.entries(fields)) address3.searchParams.set(name, value);
  location.assign(address3);
}
async function finish() {
  const answer2 = new URLSearchParams(location.search);
  if (!answer2.has("state") || !answer2.has("code") && !answer2.has("error")) return;
  const begun = tab.kept("login-begun");
  history.replaceState(null, "", pageAddress());
  if (begun?.state !== answer2.get("state")) throw new NoLogin("The login was not begun in this tab, or is over: log in again.");
  tab.keep("login-begun", null);
  const isOther = answer2.has("iss") ? answer2.get("iss") !== begun.issuer : begun.namesItself;
  if (isOther) throw new NoLogin("The answer is not of the authorization server that was asked: log in again.");
  if (answer2.has("error")) {
    const why = (answer2.get("error_description") ?? answer2.get("error")).slice(0, 200);
    throw new NoLogin(`${hostOf(begun.issuer)} did not log you in: ${why}`);
  }
  const fields = { grant_type: "authorization_code", code: answer2.get("code"), redirect_uri: pageAddress(), code_verifier: begun.verifier };
  const { verifier, state, namesItself, ...login } = begun;
  keep({ ...login, id: secret() }, await tokens(login, fields));
}
async function hold() {
  const login = tab.kept("login");
  if (!login) return;
  const held = Promise.withResolvers();
  const forever = new Promise(() => {
  });
  const take2 = () => {
    held.resolve();
    return forever;
  };
  const options2 = { signal: AbortSignal.timeout(LETTING_GO) };
  navigator.locks.request(`mcp-code-sandbox-login-${login.id}`, options2, take2).catch(held.reject);
  try {
    await held.promise;
  } catch (error2) {
    forget();
    throw new NoLogin("This login is another tab's: log in again.", { cause: error2 });
  }
}
function keep(login, { access_token: accessToken2, refresh_token: refreshToken, expires_in: seconds }) {
  const expires = Number.isFinite(seconds) ? Date.now() + seconds * 1e3 : null;
  tab.keep("login", { ...login, accessToken: accessToken2, refreshToken: refreshToken ?? login.refreshToken, expires });
}
async function accessToken() {
  const login = tab.kept("login");
  const left = (login?.expires ?? Infinity) - Date.now();
  if (!login || left > EARLY) return login?.accessToken ?? null;
  try {
    await renew(login.accessToken);
  } catch (error2) {
    if (!isLoggedIn()) return null;
    if (left <= 0) throw error2;
  }
  return tab.kept("login")?.accessToken ?? null;
}
var renewing = null;
async function renew(accessToken2) {
  const login = tab.kept("login");
  if (login?.accessToken !== accessToken2) return;
  renewing ??= exchange(login).finally(() => {
    renewing = null;
  });
  await renewing;
}
async function exchange(login) {
  try {
    if (!login.refreshToken) throw new Denied("Your login is over: log in again.");
    const given = await tokens(login, { grant_type: "refresh_token", refresh_token: login.refreshToken });
    if (isLoggedIn()) keep(login, given);
  } catch (error2) {
    if (error2 instanceof Denied) forget();
    throw error2;
  }
}
var forget = () => tab.keep("login", null);
async function logOut() {
  const login = tab.kept("login");
  forget();
  if (login) await revoke(login);
}

// app/rest.js
var isPartOfPath = (id) => !/^\.\.?$|\//.test(id);
function address(conversationId, ...rest) {
  const path = [conversationId, ...rest].map(encodeURIComponent);
  path.splice(1, 0, rest.length ? "files" : "archive");
  return new URL(`api/v1/conversations/${path.join("/")}`, document.baseURI);
}
var addressOfFile = (conversationId, name) => address(conversationId, name);
async function ask2(token2, method, url, fields) {
  const headers = { ...authorization(token2), ...fields && { "Content-Type": "application/json" } };
  try {
    return await fetch(url, { method, headers, body: fields && JSON.stringify(fields), cache: "no-store" });
  } catch (error2) {
    throw new Unreachable("The server does not answer.", { cause: error2 });
  }
}
async function assertDone(response) {
  if (!response.ok) throw failed(response.status, await response.text(), response.headers.get("Retry-After"));
}
function assertPartOfPath(id) {
  if (!isPartOfPath(id)) throw new Error("The server can do this only where the conversation's id has no slash and is more than dots.");
}
async function me(token2) {
  const response = await ask2(token2, "GET", new URL("api/v1/me", document.baseURI));
  return body(response.status, await response.text(), response.headers.get("Retry-After"));
}
async function deleteFile(token2, conversationId, name) {
  assertPartOfPath(conversationId);
  await assertDone(await ask2(token2, "DELETE", addressOfFile(conversationId, name)));
}
async function renameFile(token2, conversationId, name, filename) {
  assertPartOfPath(conversationId);
  const response = await ask2(token2, "PATCH", addressOfFile(conversationId, name), { filename });
  return body(response.status, await response.text(), response.headers.get("Retry-After")).file;
}
async function archive(token2, conversationId) {
  assertPartOfPath(conversationId);
  const response = await ask2(token2, "GET", address(conversationId));
  await assertDone(response);
  try {
    return await response.blob();
  } catch (error2) {
    throw new Unreachable("The archive broke off.", { cause: error2 });
  }
}

// app/token.js
var dialog = byId("token-dialog");
var input2 = byId("token");
var error = byId("token-error");
var loginError = byId("login-error");
var loginButton = byId("log-in");
var closeButton = byId("close-token");
var keepToken = byId("keep-token");
var waiting = null;
var isLetIn = false;
var token = () => tab.kept("token") || browser.kept("token", "");
function keep2(given, inBrowser) {
  tab.keep("token", given);
  if (inBrowser || browser.kept("token")) browser.keep("token", inBrowser ? given : null);
}
var isKnown = () => isLetIn || isLoggedIn() || token() !== "";
var hasToken = () => isKnown() && !dialog.open;
function askForToken(complaint = "", loginComplaint = "") {
  error.textContent = complaint;
  loginError.textContent = visible(loginComplaint);
  input2.value = "";
  input2.setAttribute("aria-invalid", String(Boolean(complaint)));
  open();
  waiting ??= Promise.withResolvers();
  return waiting.promise;
}
function open() {
  closeButton.hidden = !isKnown();
  if (!dialog.open) keepToken.checked = Boolean(browser.kept("token"));
  openDialog(dialog);
  (canLogIn() && !error.textContent ? loginButton : input2).focus();
}
var entered = enter();
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
      if (failure instanceof Unauthorized || failure instanceof Unreachable) return false;
      throw failure;
    });
  }
  return "";
}
async function credential() {
  if (isLoggedIn()) return await accessToken();
  return token() || (isLetIn ? "" : null);
}
async function withToken(act) {
  let complaints = ["", await entered];
  let refused = null;
  for (; ; ) {
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
async function notTaken(given, failure, before) {
  if (isLoggedIn()) {
    const isHopeless = before !== null;
    if (isHopeless) forget();
    else await renew(given).catch((error2) => {
      if (isLoggedIn()) throw error2;
    });
    return ["", `The server does not take this login: ${failure.message}`];
  }
  isLetIn = false;
  if (token() === given) keep2(null, false);
  return ["The server does not accept this token.", ""];
}
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
function choose(issuers) {
  const buttons = issuers.map((issuer) => make("button", { type: "button", className: "button primary", onclick: () => logIn(issuer) }, `Log in at ${hostOf(issuer)}`));
  byId("log-in-places").replaceChildren(...buttons);
  buttons[0].focus();
}
function connectToken(onChange, onIn) {
  byId("login-part").hidden = !canLogIn();
  if (canLogIn()) byId("token-title").textContent = "Log in";
  loginButton.onclick = () => logIn();
  byId("open-token").onclick = () => {
    askForToken().then(onChange, () => {
    });
  };
  byId("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const given = input2.value.trim();
    if (!/^[ -~]+$/.test(given)) {
      askForToken("A token can have unaccented letters, digits and punctuation marks only.");
      return;
    }
    keep2(given, keepToken.checked);
    input2.value = "";
    dialog.close();
    const { activeElement, body: body2 } = document;
    if (activeElement === body2 || dialog.contains(activeElement)) onIn();
    waiting?.resolve();
    waiting = null;
  });
  dialog.addEventListener("close", () => {
    if (isKnown()) waiting = null;
    else if (waiting) open();
  });
}

// app/packages.js
var toggle = byId("toggle-packages");
var form = byId("packages");
var names = byId("package-names");
var install = byId("install");
var cancel = byId("cancel-install");
var progress = byId("install-progress");
var outcome = byId("install-outcome");
var HELP = "Package names, with versions if needed, separated by spaces, commas or line breaks. Later runs in this conversation can import them.";
var language = "python";
var allowed = false;
var going = null;
function allowPackages(name, can) {
  language = name;
  allowed = can;
  byId("package-language").textContent = name;
  byId("package-help").textContent = can ? HELP : `No packages can be installed for ${name}: the server has no package client for it.`;
  show();
}
function show() {
  names.disabled = !allowed;
  install.disabled = !allowed;
  keepFocus(form, going ? cancel : install, () => {
    install.hidden = Boolean(going);
    cancel.hidden = !going;
    progress.hidden = !going;
  });
}
async function begin2(wanted2, next) {
  if (going) return;
  going = new AbortController();
  outcome.replaceChildren();
  show();
  announce(`Installing ${wanted2.packages.join(", ")}`);
  byId("install-names").textContent = visibleName(wanted2.packages.join(", "));
  const begun = performance.now();
  const clock2 = setInterval(() => {
    byId("install-time").textContent = duration(Math.floor((performance.now() - begun) / 1e3) * 1e3);
  }, 250);
  byId("install-time").textContent = "";
  const tell = (kind, text2, again) => notice(kind, text2 + unlessHere(wanted2.conversationId), again, outcome);
  try {
    const { signal } = going;
    const onOutput = () => {
    };
    const { message, durationMs } = await withToken((token2) => callTool(token2, "install_packages", wanted2, { onOutput, signal }));
    tell("good", `${message}. It took ${duration(durationMs)}.`, next);
    announce(message);
    if (requirements(names.value, wanted2.language).join() === wanted2.packages.join()) names.value = "";
  } catch (error2) {
    if (error2.name === "AbortError") {
      tell("note", "Cancelled, unless the installation had just finished.");
      announce("Cancelled");
      return;
    }
    const done = error2 instanceof Unreachable ? "It is not known whether anything was installed." : "Nothing was installed.";
    tell("problem", `${done} ${error2.message}`, isPassing(error2) && { label: "Try again", act: () => begin2(wanted2, next) });
  } finally {
    clearInterval(clock2);
    going = null;
    show();
  }
}
function submit(event) {
  event.preventDefault();
  if (!allowed || going) return;
  const packages = requirements(names.value, language);
  if (packages.length) begin2({ conversationId: conversation(), language, packages });
  else names.focus();
}
var canInstall = (name) => allowed && name === language;
function installFor(wanted2, again) {
  if (form.hidden) toggle.click();
  begin2(wanted2, again);
  outcome.scrollIntoView({ block: "nearest" });
}
function forgetOutcome() {
  if (!going) outcome.replaceChildren();
}
function connectPackages() {
  toggle.onclick = () => {
    const open2 = toggle.getAttribute("aria-expanded") !== "true";
    toggle.setAttribute("aria-expanded", String(open2));
    form.hidden = !open2;
    if (open2) names.focus();
  };
  form.addEventListener("submit", submit);
  cancel.onclick = () => going?.abort();
  names.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event);
  });
}

// app/options.js
var network = byId("network");
var stateful = byId("stateful");
var restart = byId("restart");
var timeout = byId("timeout");
var variables = byId("variables");
var toggle2 = byId("toggle-environment");
var stdin = byId("stdin");
var toggleInput = byId("toggle-input");
var areOptionsRight = () => timeout.reportValidity();
function options() {
  const environment = {};
  for (const row of variables.rows) {
    const [name, value] = row.querySelectorAll("input");
    if (name.value) environment[name.value] = value.value;
  }
  return {
    ...stdin.value && { stdin: stdin.value },
    ...network.checked && { network: true },
    ...stateful.checked && { stateful: true },
    ...stateful.checked && restartIsAsked() && { restart: true },
    ...Object.keys(environment).length && { environment },
    ...timeout.value && { timeoutSeconds: Number(timeout.value) }
  };
}
function setLimits(limits) {
  network.disabled = !limits.network;
  network.checked &&= limits.network;
  network.closest("label").title = limits.network ? "Lets the program use the internet" : "This server does not let programs use the network";
  timeout.max = limits.maxTimeoutSeconds;
  timeout.placeholder = limits.timeoutSeconds;
  timeout.title = `Up to ${limits.maxTimeoutSeconds} seconds, fractions included; ${limits.timeoutSeconds} if left empty`;
}
function allowState(can) {
  stateful.disabled = !can;
  stateful.checked &&= can;
  stateful.closest("label").title = can ? "Keeps variables, functions and imports for the next run" : "This language keeps no variables between runs";
  showRestart();
}
var restartIsAsked = () => restart.getAttribute("aria-pressed") === "true";
function askForRestart(yes) {
  restart.setAttribute("aria-pressed", String(yes));
  restart.textContent = yes ? "Will restart" : "Restart";
}
function showRestart() {
  restart.hidden = !stateful.checked;
  if (restart.hidden) askForRestart(false);
}
var optionsUsed = () => askForRestart(false);
function optionsUnused({ restart: wasAsked = false }) {
  if (wasAsked && stateful.checked) askForRestart(true);
}
var chosen = () => ({
  network: network.checked,
  stateful: stateful.checked,
  timeout: timeout.value,
  stdin: stdin.value,
  variables: Array.from(variables.rows, (row) => Array.from(row.querySelectorAll("input"), (input4) => input4.value))
});
var isRestored = false;
var keepOptions = () => isRestored && tab.keep("options", chosen());
function restoreOptions() {
  if (isRestored) return;
  isRestored = true;
  const kept2 = tab.kept("options");
  if (!kept2) return;
  network.checked = kept2.network && !network.disabled;
  stateful.checked = kept2.stateful && !stateful.disabled;
  timeout.value = kept2.timeout;
  stdin.value = kept2.stdin ?? "";
  showInput();
  for (const texts of kept2.variables) {
    const row = addVariable().closest("tr");
    row.querySelectorAll("input").forEach((input4, index) => {
      input4.value = texts[index];
    });
  }
  count();
  showRestart();
}
function switchOn(option) {
  const { checked: checked2, disabled } = byId(option);
  if (checked2 || disabled) return null;
  return () => {
    byId(option).click();
    announce(`${option === "network" ? "Network" : "Stateful"} is on`);
  };
}
function openInput() {
  if (byId("input").hidden) toggleInput.click();
  stdin.focus();
}
function count() {
  const set = Object.keys(options().environment ?? {}).length;
  toggle2.textContent = set ? `Environment (${set})` : "Environment";
}
function showInput() {
  toggleInput.textContent = stdin.value ? "Input (given)" : "Input";
}
function addVariable() {
  const field2 = (label, placeholder) => make("input", {
    type: "text",
    className: "mono",
    placeholder,
    ariaLabel: label,
    autocomplete: "off",
    spellcheck: false,
    oninput: count
  });
  const name = field2("Name of the variable", "NAME");
  const value = field2("Value of the variable", "value");
  const show7 = make("button", { type: "button", className: "button quiet icon-only", ariaLabel: "Show the value", title: "Show the value", ariaPressed: "false" }, icon("show"));
  value.classList.add("masked");
  show7.onclick = () => {
    show7.ariaPressed = String(!value.classList.toggle("masked"));
  };
  const remove2 = make("button", { type: "button", className: "button quiet icon-only", ariaLabel: "Remove the variable" }, icon("close"));
  const row = make("tr", {}, make("td", {}, name), make("td", {}, value), make("td", {}, show7, remove2));
  remove2.onclick = () => {
    row.remove();
    count();
    keepOptions();
    (variables.querySelector("tr:last-child input") ?? byId("add-variable")).focus();
  };
  variables.append(row);
  return name;
}
function opened(button, part) {
  const open2 = button.getAttribute("aria-expanded") !== "true";
  button.setAttribute("aria-expanded", String(open2));
  byId(part).hidden = !open2;
  return open2;
}
function connectOptions() {
  for (const part of [network, stateful, timeout, stdin, variables]) part.addEventListener("input", keepOptions);
  toggle2.onclick = () => {
    if (opened(toggle2, "environment") && !variables.rows.length) addVariable().focus();
  };
  toggleInput.onclick = () => {
    if (opened(toggleInput, "input")) stdin.focus();
  };
  stdin.oninput = showInput;
  stateful.onchange = showRestart;
  restart.onclick = () => askForRestart(!restartIsAsked());
  byId("add-variable").onclick = () => addVariable().focus();
  timeout.addEventListener("input", () => timeout.setCustomValidity(Number(timeout.value) > 0 || !timeout.value ? "" : "The time limit must be more than 0 seconds."));
  timeout.addEventListener("change", () => timeout.reportValidity());
}

// app/advice.js
function adviceFor(remedy, { conversationId, language: language3 }, run2) {
  switch (remedy?.kind) {
    case "install": {
      const { package: name } = remedy;
      const again = { label: "Run again", act: run2 };
      return canInstall(language3) && { label: `Install ${name}`, act: () => installFor({ conversationId, language: language3, packages: [name] }, again) };
    }
    case "network":
      return runWith("network", "the network", run2);
    case "stateful":
      return runWith("stateful", "Stateful", run2);
    case "stdin":
      return { label: "Give it input", act: openInput };
    default:
      return void 0;
  }
}
function runWith(option, named, run2) {
  const on = switchOn(option);
  return on && { label: `Run with ${named}`, act: () => {
    on();
    run2();
  } };
}

// app/question.js
function ask3({ title, text: text2, label, act }) {
  const dialog5 = byId("delete-dialog");
  const button = byId("confirm-delete");
  byId("delete-title").textContent = title;
  byId("delete-text").textContent = text2;
  button.textContent = label;
  button.onclick = () => {
    dialog5.close();
    act();
  };
  openDialog(dialog5);
}

// app/title.js
var PAGE = document.title;
var shown = { state: "", name: "" };
function showInTitle(part) {
  Object.assign(shown, part);
  const { state, name } = shown;
  document.title = `${state && `${state} · `}${name && `${name} – `}${PAGE}`;
}

// app/conversations.js
var MOST = 200;
var dialog2 = byId("conversations-dialog");
var field = byId("conversation-name");
var kept = () => browser.kept("conversations", []);
var keep3 = (list3) => browser.keep("conversations", list3.slice(0, MOST));
var nameOf2 = (id) => kept().find((one) => one.id === id)?.name ?? "";
var calledNow = () => nameOf2(conversation());
function noteConversation(id, name = nameOf2(id)) {
  keep3([{ id, name, at: Date.now() }, ...kept().filter((one) => one.id !== id)]);
}
function showName() {
  const name = visibleName(calledNow());
  byId("conversation-called").textContent = name || "All";
  showInTitle({ name });
}
function show2() {
  const list3 = kept();
  byId("no-conversations").hidden = list3.length > 0;
  byId("forget-conversations").hidden = list3.length === 0;
  byId("conversation-list").replaceChildren(...list3.map((one) => make("li", {}, entry(one), forget2(one))));
}
function entry({ id, name, at }) {
  const isHere = id === conversation();
  const when = new Date(at).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
  const onclick = () => {
    dialog2.close();
    goTo(id);
  };
  const button = make(
    "button",
    { type: "button", className: "history-entry", onclick },
    make("bdi", { className: "conversation-title" }, visibleName(name) || "No name"),
    make("span", { className: "facts" }, isHere ? `${when} · on the screen` : when),
    make("bdi", { className: "facts mono" }, visibleName(id))
  );
  if (isHere) button.ariaCurrent = "true";
  return button;
}
function forget2({ id, name }) {
  const what = visibleName(name || id);
  const onclick = () => keepFocus(dialog2, field, () => {
    keep3(kept().filter((one) => one.id !== id));
    changed();
    announce(`${what} is forgotten.`);
  });
  return make("button", { type: "button", className: "button quiet icon-only", ariaLabel: `Forget ${what}`, title: "Forget", onclick }, icon("close"));
}
function changed() {
  field.value = calledNow();
  showName();
  show2();
}
function askToForgetAll() {
  const text2 = "This removes them and their names from this browser. Their files stay on the server until they expire, but only their ids lead there.";
  const act = () => keepFocus(dialog2, field, () => {
    keep3([]);
    changed();
  });
  ask3({ title: "Forget all conversations?", text: text2, label: "Forget all", act });
}
function connectConversations() {
  byId("open-conversations").onclick = () => {
    changed();
    openDialog(dialog2);
  };
  field.oninput = () => {
    noteConversation(conversation(), field.value.trim());
    showName();
    show2();
  };
  byId("forget-conversations").onclick = askToForgetAll;
  byId("conversation").addEventListener("conversation", showName);
  showName();
}

// app/curl.js
var quoted = (text2) => `'${text2.replaceAll("'", `'\\''`)}'`;
var isShellName = (name) => /^[A-Za-z_]\w*$/.test(name);
function command({ environment = {}, ...request2 }) {
  const mark = crypto.getRandomValues(new Uint32Array(4)).join("-");
  const names3 = Object.keys(environment).filter(isShellName);
  const stands = Object.fromEntries(names3.map((name) => [name, mark + name]));
  const call = toolCall("run_code", { ...request2, ...names3.length && { environment: stands } });
  const message = quoted(JSON.stringify({ ...call, id: 1 }, null, 2));
  const data = names3.reduce((text2, name) => text2.replace(`"${mark}${name}"`, () => `"'"$${name}"'"`), message);
  return `curl -sS ${quoted(endpoint().href)} \\
  -H "Authorization: Bearer $MCP_API_TOKEN" \\
  -H 'Content-Type: application/json' \\
  -d ${data}`;
}
function tellVariables(environment) {
  const names3 = ["MCP_API_TOKEN", ...Object.keys(environment).filter(isShellName)];
  const words = names3.flatMap((name, at) => [at === 0 ? "" : at < names3.length - 1 ? ", " : " and ", make("code", {}, name)]);
  byId("curl-variables").replaceChildren(...words);
  const isPlain = (value) => JSON.stringify(value) === `"${value}"`;
  byId("curl-escapes").hidden = Object.values(environment).every(isPlain);
}
function connectCurl(request2) {
  const text2 = byId("curl-command");
  const button = byId("copy-curl");
  byId("open-curl").onclick = () => {
    const wanted2 = request2();
    if (!wanted2) return;
    text2.textContent = command(wanted2);
    tellVariables(wanted2.environment ?? {});
    byId("curl-status").textContent = "";
    openDialog(byId("curl-dialog"));
    button.focus();
  };
  button.onclick = () => copy(text2.textContent, button, text2);
}

// app/file-actions.js
var renaming = byId("rename-dialog");
var newName = byId("new-name");
var mistake = byId("rename-error");
var all = byId("download-files");
var list = null;
var wanted = null;
async function remove(what, were, act, next) {
  const conversationId = conversation();
  try {
    await withToken((token2) => act(token2, conversationId));
    announce(`${what} ${were} deleted${unlessHere(conversationId)}.`);
  } catch (error2) {
    const isUnknown = error2 instanceof Unreachable;
    notice("problem", `${what} ${isUnknown ? "may not have been" : `${were} not`} deleted${unlessHere(conversationId)}. ${error2.message}`);
    if (isUnknown || error2.code === "file_not_found") list.refresh();
    return;
  }
  if (conversationId === conversation()) await list.showFiles([], next);
}
function askToDelete(file, next) {
  const name = visibleName(file.name);
  const act = () => {
    byId("file-dialog").close();
    remove(name, "was", (token2, conversationId) => deleteFile(token2, conversationId, file.name), next);
  };
  ask3({ title: "Delete the file?", text: `This deletes ${name}. It cannot be undone.`, label: "Delete", act });
}
function askToDeleteAll() {
  const act = () => remove("The files", "were", (token2, conversationId) => callTool(token2, "delete_conversation", { conversationId }));
  ask3({ title: "Delete all files?", text: "This stops the conversation's programs and deletes its files. It cannot be undone.", label: "Delete all", act });
}
function askToRename(file) {
  wanted = { file, conversationId: conversation() };
  mistake.textContent = "";
  newName.setAttribute("aria-invalid", "false");
  newName.value = file.name;
  openDialog(renaming);
  newName.focus();
  const begin5 = file.name.lastIndexOf("/") + 1;
  const end = file.name.lastIndexOf(".");
  newName.setSelectionRange(begin5, end > begin5 ? end : file.name.length);
}
async function rename() {
  const { file, conversationId } = wanted;
  const filename = newName.value.trim();
  if (filename === file.name) {
    renaming.close();
    return;
  }
  let renamed;
  try {
    renamed = await withToken((token2) => renameFile(token2, conversationId, file.name, filename));
  } catch (error2) {
    mistake.textContent = error2 instanceof Refused ? error2.message : `The file may not have been renamed. ${error2.message}`;
    newName.setAttribute("aria-invalid", "true");
    newName.focus();
    if (error2 instanceof Unreachable) list.refresh();
    return;
  }
  renaming.close();
  byId("file-dialog").close();
  announce(`${visibleName(file.name)} is now ${visibleName(renamed.name)}.`);
  if (conversationId === conversation()) await list.showFiles([renamed.name]);
}
async function downloadAll() {
  if (all.ariaDisabled === "true") return;
  packing(true);
  const conversationId = conversation();
  try {
    const url = URL.createObjectURL(await withToken((token2) => archive(token2, conversationId)));
    make("a", { href: url, download: `${calledNow() || "files"}.zip` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 6e4);
    announce("The archive is downloaded.");
  } catch (error2) {
    notice("problem", `The files were not downloaded${unlessHere(conversationId)}. ${error2.message}`, { label: "Try again", act: downloadAll });
  } finally {
    packing(false);
  }
}
function packing(yes) {
  all.setAttribute("aria-disabled", String(yes));
  all.textContent = yes ? "Packing…" : "Download all";
  if (yes) announce("Packing");
}
function connectFileActions(of) {
  list = of;
  byId("delete-files").onclick = askToDeleteAll;
  all.onclick = downloadAll;
  byId("rename-form").addEventListener("submit", (event) => {
    event.preventDefault();
    rename();
  });
}

// app/links.js
var PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
function address2(url) {
  const { pathname, search: search2 } = new URL(url);
  const at = pathname.search(/\/files\/[0-9a-f]{64}\//);
  return new URL(`.${pathname.slice(at)}${search2}`, document.baseURI).href;
}
var addressInFrame = (url) => address2(url).replace(/\/files\/(?=[0-9a-f]{64}\/)/, "/framed/");
function fresh({ url }) {
  const once = new URL(address2(url));
  once.searchParams.set("shown", Date.now());
  return once.href;
}
var isPicture = ({ mimeType }) => PICTURES.includes(mimeType);

// app/order.js
var byName = new Intl.Collator([], { numeric: true, sensitivity: "base" });
var compareNames = (one, other) => byName.compare(one.name, other.name);
var ending = ({ name }) => /[^/]\.([^./]+)$/.exec(name)?.[1] ?? "";
var ORDERS = {
  name: compareNames,
  size: (one, other) => other.size - one.size || compareNames(one, other),
  type: (one, other) => byName.compare(ending(one), ending(other)) || compareNames(one, other)
};
function arranged(files, { order: order2, filter: filter2, isNew: isNew2 }) {
  const words = filter2.toLowerCase().split(/\s+/).filter(Boolean);
  const found = files.filter(({ name }) => words.every((word) => visibleName(name).toLowerCase().includes(word)));
  if (Object.hasOwn(ORDERS, order2)) return found.sort(ORDERS[order2]);
  return [...found.filter(isNew2), ...found.filter((file) => !isNew2(file))];
}
var total = (files) => files.reduce((sum, file) => sum + file.size, 0);

// app/table.js
var MOST_ROWS = 200;
var MOST_COLUMNS = 40;
var LONG = 40;
function separator(text2, name) {
  if (/\.(tsv|tab)$/i.test(name)) return "	";
  const line = /^[^\r\n]*/.exec(text2)[0].replace(/"[^"]*"/g, "");
  const count3 = (mark) => line.split(mark).length;
  return [",", ";", "	", "|"].reduce((best, mark) => count3(mark) > count3(best) ? mark : best);
}
function parse(text2, name, most2) {
  const mark = separator(text2, name);
  const rest = `[^${mark}\\r\\n]*`;
  const value = new RegExp(`(?:"([^"]*(?:""[^"]*)*)"?|(${rest}))${rest}([${mark}]|\\r\\n?|\\n|$)`, "y");
  const rows = [];
  let row = [];
  while (value.lastIndex < text2.length && rows.length < most2) {
    const [, quoted2, plain, end] = value.exec(text2);
    row.push(quoted2?.replaceAll('""', '"') ?? plain);
    if (end === mark && value.lastIndex === text2.length) row.push("");
    else if (end === mark) continue;
    if (row.length > 1 || row[0]) rows.push(row);
    row = [];
  }
  return { rows, hasMore: value.lastIndex < text2.length };
}
var isNumber = (text2) => text2 === "" || /^\s*[-+]?(\d[\d,.\s_]*|\.\d+)(e[-+]?\d+)?\s*%?\s*$/i.test(text2);
var count2 = (number, word) => `${number.toLocaleString()} ${word}${number === 1 ? "" : "s"}`;
function tableOf(text2, name, cut) {
  const { rows, hasMore } = parse(text2, name, MOST_ROWS + 1);
  if (cut && !hasMore) rows.pop();
  const [head = [], ...body2] = rows;
  const columns = Math.max(0, ...rows.map((row) => row.length));
  const places2 = Array.from({ length: Math.min(columns, MOST_COLUMNS) }, (_, at) => at);
  const numeric = places2.map((at) => body2.some((row) => row[at]) && body2.every((row) => isNumber(row[at] ?? "")));
  const line = (row, tag, properties) => make("tr", {}, ...places2.map((at) => {
    const value = row[at] ?? "";
    const title = value.length > LONG ? visible(value) : "";
    return make(tag, { className: numeric[at] ? "number" : "", title, ...properties }, visible(value));
  }));
  const table = make(
    "table",
    {},
    make("thead", {}, line(head, "th", { scope: "col" })),
    make("tbody", {}, ...body2.map((row) => line(row, "td", {})))
  );
  const height = `${cut || hasMore ? "The first " : ""}${count2(body2.length, "row")}`;
  const width = `${columns > places2.length ? `the first ${places2.length} of ` : ""}${count2(columns, "column")}`;
  return { table, note: `${height}, ${width}` };
}

// app/preview.js
var MOST_BYTES2 = 512 << 10;
var dialog3 = byId("file-dialog");
var box = byId("preview");
var ways = byId("preview-ways");
var loading = null;
function waysOf(file) {
  if (isPicture(file)) return [["Picture", showPicture]];
  if (/\.html?$/i.test(file.name)) return [["Page", showPage], ["Source", showText]];
  if (/\.(csv|tsv|tab)$/i.test(file.name)) return [["Table", showTable], ["Text", showText]];
  return [["Text", showText]];
}
var say = (text2) => {
  byId("preview-note").textContent = text2;
};
function showPicture(file) {
  const name = visibleName(file.name);
  const picture2 = make("img", { id: "picture", alt: `Picture: ${name}` });
  picture2.onload = () => say(`${picture2.naturalWidth} × ${picture2.naturalHeight}, ${size(file.size)}`);
  picture2.onerror = () => say("The browser cannot show this picture. It may be broken, or gone.");
  picture2.src = fresh(file);
  box.replaceChildren(picture2);
}
function showPage(file) {
  if (!isSecureContext) {
    say("Pages are shown only where this one comes over HTTPS or from the same machine. Download it to open it.");
    return;
  }
  const frame = make("iframe", { title: `Page made by a program: ${visibleName(file.name)}`, referrerPolicy: "no-referrer" });
  frame.setAttribute("sandbox", "allow-scripts");
  frame.src = addressInFrame(file.url);
  box.replaceChildren(frame);
  say("Made by a program: do not type secrets here. It is shown without network, so that what it loads from elsewhere is missing.");
}
async function showText(file, signal) {
  const read = await begin3(file, signal);
  if (!read) return;
  box.replaceChildren(make("pre", { className: "mono" }, visible(read.text)));
  say(read.cut ? `The first ${size(MOST_BYTES2)} of ${size(file.size)}` : size(file.size));
}
async function showTable(file, signal) {
  const read = await begin3(file, signal);
  if (!read) return;
  const { table, note } = tableOf(read.text, file.name, read.cut);
  box.replaceChildren(table);
  say(note);
}
async function begin3(file, signal) {
  const response = await fetch(address2(file.url), { headers: { Range: `bytes=0-${MOST_BYTES2 - 1}` }, cache: "no-store", signal });
  if (!response.ok) throw new Error(response.status === 404 ? "There is no such file any more." : await response.text());
  const bytes = new Uint8Array(await response.arrayBuffer());
  const text2 = decoded(bytes);
  if (text2 === null) say("This is neither text nor a picture that browsers show. Download it to open it.");
  else if (!text2) say("The file is empty.");
  return text2 && { text: text2, cut: response.status === 206 && bytes.length < file.size };
}
function decoded(bytes) {
  const isWide = bytes[0] === 255 && bytes[1] === 254;
  if (isWide) return new TextDecoder("utf-16le").decode(bytes, { stream: true });
  if (bytes.includes(0)) return null;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: true });
  } catch {
    return new TextDecoder("windows-1252").decode(bytes);
  }
}
async function show3(file, way) {
  loading?.abort();
  loading = new AbortController();
  const { signal } = loading;
  box.replaceChildren();
  say("");
  try {
    await way(file, signal);
  } catch (error2) {
    if (!signal.aborted) say(`The file cannot be shown. ${error2.message}`);
  }
}
function openFile(file) {
  const all2 = waysOf(file);
  byId("file-title").textContent = visibleName(file.name);
  Object.assign(byId("download-file"), { href: address2(file.url), download: file.name });
  byId("rename-file").onclick = () => askToRename(file);
  byId("delete-file").onclick = () => onDelete(file);
  ways.hidden = all2.length < 2;
  const legend = ways.querySelector("legend");
  ways.replaceChildren(legend, ...all2.map(([label, way], at) => make(
    "label",
    {},
    make("input", { type: "radio", name: "preview-way", autocomplete: "off", checked: at === 0, onchange: () => show3(file, way) }),
    make("span", {}, label)
  )));
  openDialog(dialog3);
  show3(file, all2[0][1]);
}
var onDelete = null;
function connectPreview(toDelete) {
  onDelete = toDelete;
  dialog3.addEventListener("close", () => {
    loading?.abort();
    box.replaceChildren();
  });
}

// app/files.js
var MOST_FOR_THUMBNAIL = 8e6;
var SOONEST = 1e4;
var LATEST = 864e5;
var list2 = byId("file-list");
var filter = byId("files-filter");
var order = byId("files-order");
var shown2 = { rows: [], truncated: null };
var marked = /* @__PURE__ */ new Set();
var asked = 0;
var waiting2 = 0;
var renewal = null;
var isSmallPicture = (file) => isPicture(file) && file.size <= MOST_FOR_THUMBNAIL;
async function listAll(token2, conversationId) {
  const files = [];
  let page = {};
  do {
    const next = page.nextCursor ? { cursor: page.nextCursor } : {};
    page = await callTool(token2, "list_files", { conversationId, ...next });
    files.push(...page.files);
  } while (page.nextCursor);
  return { files, truncated: page.truncated };
}
async function ask4(take2) {
  asked += 1;
  waiting2 += 1;
  const turn = asked;
  const conversationId = conversation();
  const isLatest = () => turn === asked && conversationId === conversation();
  try {
    const { files, truncated } = await withToken((token2) => listAll(token2, conversationId));
    if (!isLatest()) return;
    take2(files, truncated);
    renewInTime(files);
  } catch (error2) {
    if (isLatest()) throw error2;
  } finally {
    waiting2 -= 1;
  }
}
async function showFiles(changed2 = [], next = changed2[0]) {
  marked = new Set(changed2);
  try {
    await ask4((files, truncated) => show4(files, truncated, next));
  } catch (error2) {
    notice("problem", `The files cannot be shown. ${error2.message}`, { label: "Try again", act: () => showFiles(changed2) });
  }
}
async function refresh() {
  if (document.hidden) return;
  renewInTime(shown2.rows.map(({ file }) => file));
  if (waiting2 || !hasToken()) return;
  try {
    await ask4((files, truncated) => renew2(files, truncated) || show4(files, truncated));
  } catch {
  }
}
var isNew = ({ name }) => marked.has(name);
var isSame = (one, other) => one.name === other.name && one.size === other.size && one.mimeType === other.mimeType;
function renew2(files, truncated) {
  const { rows } = shown2;
  if (files.length !== rows.length || truncated !== shown2.truncated || !rows.every(({ file }, at) => isSame(file, files[at]))) return false;
  rows.forEach(({ file, row }, at) => {
    file.url = files[at].url;
    row.querySelector("a").href = address2(file.url);
    const picture2 = row.querySelector("img");
    if (picture2?.naturalWidth === 0) picture2.src = fresh(file);
  });
  return true;
}
function renewInTime(files) {
  clearTimeout(renewal);
  const end = Math.min(...files.map(({ url }) => Number(new URL(url).searchParams.get("exp")) || Infinity)) * 1e3;
  if (end < Infinity) renewal = setTimeout(refresh, Math.min(Math.max((end - Date.now()) / 2, SOONEST), LATEST));
}
var rowOf = (name) => shown2.rows.find(({ file }) => file.name === name)?.row;
function show4(files, truncated, next) {
  const focus = () => (rowOf(next)?.querySelector("button") ?? byId("upload")).focus();
  keepFocus(byId("files"), { focus }, () => replace(files, truncated));
}
function replace(files, truncated) {
  shown2 = { rows: files.map((file) => ({ file, row: entry2(file) })), truncated };
  const isEmpty = files.length === 0;
  byId("no-files").hidden = !isEmpty;
  for (const id of ["delete-files", "download-files"]) byId(id).hidden = isEmpty;
  byId("files-size").textContent = isEmpty ? "" : size(total(files));
  byId("files-tools").hidden = files.length < 2;
  if (files.length < 2) filter.value = "";
  keepHeight();
  arrange();
}
function keepHeight() {
  const { style, offsetHeight } = byId("files");
  style.minHeight = filter.value && `${offsetHeight}px`;
}
function arrange() {
  const files = shown2.rows.map(({ file }) => file);
  const found = arranged(files, { order: order.value, filter: filter.value, isNew });
  list2.replaceChildren(...found.map(({ name }) => rowOf(name)));
  if (shown2.truncated) list2.append(make("li", { className: "note" }, shown2.truncated));
  const all2 = files.length ? String(files.length) : "";
  byId("files-count").textContent = found.length < files.length ? `${found.length} of ${all2}` : all2;
  byId("none-matches").hidden = found.length > 0 || files.length === 0;
}
function neighbour(name) {
  const names3 = [...list2.children].map((row) => shown2.rows.find((other) => other.row === row)?.file.name);
  const at = names3.indexOf(name);
  return names3[at + 1] ?? names3[at - 1];
}
function entry2(file) {
  const name = visibleName(file.name);
  const face = isSmallPicture(file) ? make("img", { loading: "lazy", decoding: "async", alt: "", width: 40, height: 40, src: fresh(file) }) : icon("file");
  const act = (symbol, label, onclick) => make("button", {
    type: "button",
    className: `button quiet icon-only ${symbol}-one`,
    ariaLabel: `${label} ${name}`,
    title: label,
    onclick
  }, icon(symbol));
  return make(
    "li",
    {},
    make(
      "button",
      { type: "button", className: "file-open", title: name, onclick: () => openFile(file) },
      make("span", { className: "thumbnail" }, face),
      make("bdi", { className: "file-name mono" }, name)
    ),
    ...isNew(file) ? [make("span", { className: "badge" }, "new")] : [],
    make("span", { className: "file-size" }, size(file.size)),
    act("rename", "Rename", () => askToRename(file)),
    act("delete", "Delete", () => askToDelete(file, neighbour(file.name))),
    make("a", {
      className: "button quiet icon-only",
      href: address2(file.url),
      download: file.name,
      ariaLabel: `Download ${name}`,
      title: "Download"
    }, icon("download"))
  );
}
function showPictures(files) {
  const pictures = files.filter((file) => file.new && isSmallPicture(file)).slice(0, 8);
  byId("pictures").replaceChildren(...pictures.map((file) => {
    const name = visibleName(file.name);
    return make(
      "figure",
      {},
      make(
        "button",
        { type: "button", ariaLabel: `Show ${name}`, onclick: () => openFile(latest(file)) },
        make("img", { src: fresh(file), alt: `Picture made by the program: ${name}`, decoding: "async" })
      ),
      make("figcaption", {}, make("bdi", { className: "mono" }, name))
    );
  }));
}
function latest(file) {
  const path = ({ url }) => new URL(url).pathname;
  return shown2.rows.find((row) => path(row.file) === path(file))?.file ?? file;
}
function connectFiles() {
  connectFileActions({ showFiles, refresh });
  connectPreview((file) => askToDelete(file, neighbour(file.name)));
  filter.oninput = () => {
    keepHeight();
    arrange();
  };
  order.value = browser.kept("files-order", "new");
  order.onchange = () => {
    browser.keep("files-order", order.value);
    arrange();
  };
  addEventListener("focus", refresh);
  document.addEventListener("visibilitychange", refresh);
}

// app/history.js
var MOST2 = 50;
var MOST_CODE = 1e5;
var dialog4 = byId("history-dialog");
var search = byId("history-search");
function remember({ language: language3, code, conversationId }, { status, exitCode, durationMs }) {
  noteConversation(conversationId);
  if (code.length > MOST_CODE) return;
  const run2 = { at: Date.now(), language: language3, code, conversationId, status, exitCode, durationMs };
  const runs = browser.kept("history", []).filter((other) => other.code !== code || other.language !== language3);
  browser.keep("history", [run2, ...runs].slice(0, MOST2));
}
function connectHistory(onPick) {
  byId("open-history").onclick = () => {
    search.value = "";
    show5(onPick);
    openDialog(dialog4);
  };
  search.oninput = () => {
    const found = show5(onPick);
    byId("history-found").textContent = `${found} ${found === 1 ? "run" : "runs"}`;
  };
  const question = byId("clear-dialog");
  byId("clear-history").onclick = () => openDialog(question);
  byId("confirm-clear").onclick = () => {
    question.close();
    browser.keep("history", []);
    keepFocus(dialog4, dialog4.querySelector("[data-close]"), () => show5(onPick));
  };
}
function isFound(run2) {
  const text2 = [run2.code, run2.language, run2.conversationId, nameOf2(run2.conversationId)].join("\n").toLowerCase();
  return search.value.toLowerCase().split(/\s+/).every((word) => text2.includes(word));
}
function show5(onPick) {
  const runs = browser.kept("history", []);
  const found = runs.filter(isFound);
  byId("no-history").hidden = runs.length > 0;
  byId("no-history-found").hidden = found.length > 0 || runs.length === 0;
  for (const part of [byId("clear-history"), search]) part.hidden = runs.length === 0;
  byId("history-list").replaceChildren(...found.map((run2) => make("li", {}, entry3(run2, onPick))));
  return found.length;
}
function entry3(run2, onPick) {
  const begin5 = run2.code.split("\n").filter((line) => line.trim()).slice(0, 3).join("\n");
  const when = new Date(run2.at).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
  const facts2 = [run2.language, wordFor(run2.status), duration(run2.durationMs), when];
  const onclick = () => {
    dialog4.close();
    onPick(run2);
  };
  return make(
    "button",
    { type: "button", className: "history-entry", onclick },
    make("code", {}, begin5 || "(empty)"),
    make("span", { className: "facts" }, facts2.join(" · ")),
    make("bdi", { className: nameOf2(run2.conversationId) ? "facts" : "facts mono" }, visibleName(nameOf2(run2.conversationId) || run2.conversationId))
  );
}

// app/examples.js
var UPLOADED = "// Upload a file first, or drop one on the page.\n";
var examples = {
  python: [
    ["Hello", `import platform
import time

print("Hello from Python", platform.python_version())
for second in range(3, 0, -1):
    print(f"\\033[36m{second}\\033[0m …", flush=True)
    time.sleep(0.5)
print("Done.")
`],
    ["Chart with pandas", `import matplotlib.pyplot as plt
import pandas as pd

months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun"]
sales = pd.DataFrame(
    {"north": [12, 15, 14, 18, 22, 25], "south": [9, 11, 15, 16, 15, 19]},
    index=months,
)
print(sales.describe().round(1))

sales.plot(marker="o", figsize=(8, 4), color=["#0b6b60", "#d9822b"])
plt.grid(alpha=0.25)
plt.title("Sales by region")
plt.ylabel("thousand")
plt.tight_layout()
plt.savefig("sales.png", dpi=120)
`],
    ["Read an uploaded file", `from pathlib import Path

import pandas as pd

# Upload a CSV file first, or drop one on the page.
for path in sorted(Path(".").glob("*.csv")):
    table = pd.read_csv(path)
    print(f"{path}: {len(table)} rows")
    print(table.describe(include="all").to_string(), end="\\n\\n")
`],
    ["Errors", `import sys

print("This goes to standard output.", flush=True)
print("This goes to standard error.", file=sys.stderr)
raise ValueError("and this is how a traceback looks")
`]
  ],
  typescript: [
    ["Fibonacci", `function* fibonacci(): Generator<bigint> {
  let [a, b] = [0n, 1n];
  for (;;) {
    yield a;
    [a, b] = [b, a + b];
  }
}

let index = 0;
for (const number of fibonacci()) {
  console.log(String(index).padStart(3), number.toLocaleString("en"));
  if (++index > 30) break;
}
`],
    ["Read an uploaded file", `${UPLOADED}import { readdir, readFile } from "node:fs/promises";

for (const name of await readdir(".")) {
  if (!name.endsWith(".csv")) continue;
  const lines = (await readFile(name, "utf8")).trimEnd().split("\\n");
  console.log(\`\${name}: \${lines.length - 1} rows\`);
  console.table(lines.slice(1, 6).map((line) => line.split(",")));
}
`]
  ],
  shell: [
    ["Hello", `echo "Hello from $(uname -sm)"
echo "Files of this conversation:"
ls -l
`],
    ["Count the lines of uploaded files", `# Upload some files first, or drop them on the page.
for file in *; do
  [ -f "$file" ] && wc -l "$file"
done | sort -n
`]
  ],
  ruby: [["Hello", `puts "Hello from Ruby #{RUBY_VERSION}"
`]],
  go: [["Hello", `package main

import "fmt"

func main() {
	fmt.Println("Hello from Go")
}
`]]
};

// app/languages.js
var languages = byId("language");
var choice = byId("example");
var editor = null;
var runners = [{ language: "python", aliases: [], description: "" }];
var chosen2 = "python";
var language2 = () => chosen2;
var own = (name) => Object.hasOwn(examples, name) ? examples[name] : [];
var runnerOf = (name) => runners.find((runner) => runner.language === name || runner.aliases.includes(name));
var names2 = () => [chosen2, ...runnerOf(chosen2)?.aliases ?? []];
var itsExamples = () => names2().map(own).find((list3) => list3.length) ?? [];
function setRunners(list3) {
  runners = list3;
  languages.replaceChildren(...list3.map((runner) => make("option", { value: runner.language, title: runner.description }, runner.language)));
  languages.disabled = list3.length === 0;
  const before = chosen2;
  showLanguage(runnerOf(chosen2)?.language ?? list3[0]?.language ?? chosen2);
  if (before !== chosen2 && isExample(editor.text())) showFirstExample();
}
function showLanguage(name) {
  chosen2 = name;
  languages.value = name;
  if (languages.value !== name) languages.append(make("option", { value: name, selected: true }, name));
  languages.title = runnerOf(name)?.description ?? "";
  allowState(runnerOf(name)?.stateful ?? false);
  allowPackages(name, runnerOf(name)?.packages ?? false);
  editor.setLanguage(names2());
  const titles = itsExamples().map(([title], index) => make("option", { value: String(index) }, title));
  choice.replaceChildren(make("option", { value: "" }, "Examples"), ...titles);
  choice.disabled = titles.length === 0;
}
var exampleAt = (index) => itsExamples()[index]?.[1] ?? "";
var showFirstExample = () => editor.setText(exampleAt(0));
var isExample = (text2) => !text2.trim() || Object.values(examples).flat().some(([, program]) => program === text2);
function connectLanguages(of, onChange, onExample) {
  editor = of;
  showLanguage(chosen2);
  languages.onchange = () => {
    const untouched = isExample(editor.text());
    showLanguage(languages.value);
    if (untouched) showFirstExample();
    onChange();
  };
  choice.onchange = () => {
    const code = exampleAt(Number(choice.value));
    choice.value = "";
    onExample({ language: chosen2, code });
  };
}

// app/ansi.js
var ESCAPE = "\x1B";
var SEQUENCE = /^\u001b(?:\[([0-?]*)[ -/]*([@-~])|[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\)|[ -/]+[0-~]|[0-Z\\^`-~])/;
var LONGEST = 4096;
var FLAGS = { 1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "inverse", 9: "strike" };
var RESETS = { 22: ["bold", "dim"], 23: ["italic"], 24: ["underline"], 27: ["inverse"], 29: ["strike"] };
var lookOf = (flags, colour, background) => ({ flags, colour, background, key: `${flags}/${colour}/${background}` });
var PLAIN = lookOf("", null, null);
var AnsiReader = class {
  look = PLAIN;
  #rest = "";
  /** Gives `show(text, look)` the text of the next piece. */
  read(piece, show7) {
    let text2 = this.#rest + piece;
    this.#rest = "";
    for (; ; ) {
      const at = text2.indexOf(ESCAPE);
      if (at !== 0 && text2) show7(at < 0 ? text2 : text2.slice(0, at), this.look);
      if (at < 0) return;
      text2 = text2.slice(at);
      const found = SEQUENCE.exec(text2);
      if (!found && text2.length < LONGEST && !/^\u001b(?:\[[^]*[^ -?]|[^[\]PX^_ -/])/.test(text2)) {
        this.#rest = text2;
        return;
      }
      text2 = text2.slice(found ? found[0].length : 1);
      if (found?.[2] === "m") this.look = styled(this.look, found[1]);
    }
  }
  /** Gives `show` what waits for the rest of a sequence that does not come any more. */
  end(show7) {
    while (this.#rest) {
      const text2 = this.#rest.slice(1);
      this.#rest = "";
      this.read(text2, show7);
    }
  }
};
function styled(look, parameters) {
  const numbers = parameters.split(/[;:]/).map((number) => Number(number) || 0);
  const flags = new Set(look.flags.split(" ").filter(Boolean));
  let { colour, background } = look;
  for (let at = 0; at < numbers.length; at += 1) {
    const number = numbers[at];
    if (number === 0) {
      flags.clear();
      colour = background = null;
    } else if (FLAGS[number]) flags.add(FLAGS[number]);
    else if (RESETS[number]) RESETS[number].forEach((flag) => flags.delete(flag));
    else if (number === 39) colour = null;
    else if (number === 49) background = null;
    else if (number === 38 || number === 48) {
      const [value, used] = extended(numbers.slice(at + 1));
      at += used;
      if (number === 38) colour = value;
      else background = value;
    } else if (between(number, 30, 37)) colour = number - 30;
    else if (between(number, 90, 97)) colour = number - 82;
    else if (between(number, 40, 47)) background = number - 40;
    else if (between(number, 100, 107)) background = number - 92;
  }
  return lookOf([...flags].join(" "), colour, background);
}
function extended([kind, ...values]) {
  if (kind === 2) return [`rgb(${values.slice(0, 3).map((value) => Math.min(value ?? 0, 255)).join(" ")})`, 4];
  if (kind !== 5) return [null, 1];
  const number = Math.min(values[0] ?? 0, 255);
  if (number < 16) return [number, 2];
  if (number >= 232) return [`rgb(${Array(3).fill(8 + (number - 232) * 10).join(" ")})`, 2];
  const level = (place2) => [0, 95, 135, 175, 215, 255][Math.floor((number - 16) / place2) % 6];
  return [`rgb(${level(36)} ${level(6)} ${level(1)})`, 2];
}
var between = (number, least, most2) => number >= least && number <= most2;

// app/output.js
var BLOCK = 8192;
var MOST3 = 4 << 20;
var SHARE = 8;
var Output = class {
  /** Whether nothing was printed. */
  isEmpty = true;
  #box;
  #follows;
  #queue = [];
  #readers;
  #block;
  /** Characters in the last block and in all. */
  #size;
  #shown;
  #lineEnded;
  #waiting = null;
  /** Whether the line is written anew by what comes next, as progress bars do. */
  #again;
  constructor(box3) {
    this.#box = box3;
    const screen = box3.parentElement;
    let before = 0;
    screen.addEventListener("scroll", () => {
      const { scrollHeight, scrollTop, clientHeight } = screen;
      if (scrollHeight - scrollTop - clientHeight < 40) this.#follows = true;
      else if (scrollTop < before) this.#follows = false;
      before = scrollTop;
    });
    const sizes = new ResizeObserver(() => {
      if (this.#follows) screen.scrollTop = screen.scrollHeight;
    });
    for (const element of [screen, ...screen.children]) sizes.observe(element);
    this.clear();
  }
  clear() {
    this.isEmpty = true;
    this.#queue.length = 0;
    this.#readers = { stdout: new AnsiReader(), stderr: new AnsiReader() };
    this.#box.replaceChildren();
    this.#newBlock();
    this.#shown = 0;
    this.#again = false;
    this.#lineEnded = true;
    this.#follows = true;
  }
  /** Adds a piece of a stream. */
  push(stream, text2) {
    this.isEmpty &&= text2 === "";
    for (let at = 0; at < text2.length; at += BLOCK) this.#queue.push([stream, text2.slice(at, at + BLOCK)]);
    this.#showSoon();
  }
  /** Marks where something is missing, with a sentence. What comes then begins anew. */
  gap(sentence) {
    this.end();
    this.#queue.push(["gap", sentence]);
  }
  /** Nothing more comes: what looked like the beginning of a sequence is text. */
  end() {
    this.#queue.push(["stdout", null], ["stderr", null]);
    this.#showSoon();
  }
  /** What is shown, as text: without the stream that the style hides. */
  text() {
    const { show: show7 = "all" } = this.#box.dataset;
    const pieces = [...this.#box.children].flatMap((block) => [...block.childNodes]);
    const isShown = ({ stream = show7 }) => show7 === "all" || stream === show7;
    return pieces.filter(isShown).map((piece) => piece.textContent).join("");
  }
  #showSoon() {
    this.#waiting ??= requestAnimationFrame(() => this.#show());
  }
  #show() {
    this.#waiting = null;
    const until = performance.now() + SHARE;
    let done = 0;
    while (done < this.#queue.length && performance.now() < until) {
      const [stream, text2] = this.#queue[done];
      const show7 = (part, look) => this.#write(stream, look, part);
      if (stream === "gap") this.#mark(text2);
      else if (text2 === null) this.#readers[stream].end(show7);
      else this.#readers[stream].read(text2, show7);
      done += 1;
    }
    this.#queue.splice(0, done);
    if (this.#queue.length) this.#showSoon();
  }
  #mark(sentence) {
    this.#box.append(make("div", { className: "note gap" }, sentence));
    this.#readers = { stdout: new AnsiReader(), stderr: new AnsiReader() };
    this.#again = false;
    this.#lineEnded = true;
    this.#shown = 0;
    this.#newBlock();
  }
  #write(stream, look, text2) {
    for (const part of text2.split(/(\r+\n?)/)) {
      if (part.endsWith("\n") && part.startsWith("\r")) this.#append(stream, look, "\n");
      else if (part.startsWith("\r")) this.#again = true;
      else if (part) this.#append(stream, look, visible(part));
    }
  }
  #append(stream, look, text2) {
    if (this.#again && text2[0] !== "\n") this.#eraseLine();
    this.#again = false;
    for (let rest = text2; rest; ) {
      if (this.#shown >= MOST3) {
        this.#tellTheEnd();
        return;
      }
      if (this.#size >= 2 * BLOCK || this.#size >= BLOCK && this.#lineEnded) this.#newBlock();
      const most2 = 2 * BLOCK - this.#size;
      const line = rest.indexOf("\n", Math.max(BLOCK - this.#size, 0)) + 1;
      const part = rest.slice(0, line > 0 && line < most2 ? line : most2);
      this.#span(stream, look).firstChild.appendData(part);
      this.#size += part.length;
      this.#shown += part.length;
      this.#lineEnded = part.endsWith("\n");
      rest = rest.slice(part.length);
    }
  }
  #newBlock() {
    this.#block = make("div", { className: "block" });
    this.#box.append(this.#block);
    this.#size = 0;
  }
  /** The last element if it has the same look, else a new one. */
  #span(stream, look) {
    const last = this.#block.lastChild;
    if (last && last.stream === stream && last.look.key === look.key) return last;
    const colour = (value) => typeof value === "number" ? `var(--ansi-${value})` : value ?? "";
    const span = make("span", { className: `${stream} ${look.flags}` }, document.createTextNode(""));
    span.style.setProperty("--fore", colour(look.colour));
    span.style.setProperty("--back", colour(look.background));
    span.classList.toggle("coloured", look.colour !== null);
    span.classList.toggle("filled", look.background !== null);
    Object.assign(span, { stream, look });
    this.#block.append(span);
    return span;
  }
  #eraseLine() {
    for (let span = this.#block.lastChild; span; span = this.#block.lastChild) {
      const text2 = span.firstChild;
      const kept2 = text2.data.lastIndexOf("\n") + 1;
      this.#size -= text2.length - kept2;
      this.#shown -= text2.length - kept2;
      text2.data = text2.data.slice(0, kept2);
      if (kept2) return;
      span.remove();
    }
  }
  #tellTheEnd() {
    if (this.#box.lastChild.classList.contains("note")) return;
    this.#box.append(make("div", { className: "note" }, "There is more output, which is not shown here."));
  }
};

// app/result.js
var box2 = byId("output");
var nothing = byId("nothing-printed");
var whose = byId("whose");
var wrap = byId("wrap");
var shownOf = null;
var isOld = false;
var output = new Output(box2);
function beginResult(conversationId) {
  output.clear();
  showPictures([]);
  byId("empty").hidden = true;
  nothing.hidden = true;
  shownOf = conversationId;
  markOld(false);
}
function markOld(yes) {
  isOld = yes;
  showWhose();
}
function showWhose() {
  const isElsewhere = shownOf !== null && shownOf !== conversation();
  const run2 = isOld ? "the run before" : "a run";
  whose.hidden = shownOf === null || !isOld && !isElsewhere;
  whose.textContent = `Below is the result of ${run2}${isElsewhere ? ` in ${visibleName(nameOf2(shownOf) || shownOf)}` : ""}.`;
}
function endResult({ files }) {
  nothing.hidden = !output.isEmpty;
  showPictures(files);
  return nothing.hidden ? null : nothing.textContent;
}
function connectResult() {
  byId("copy-output").onclick = ({ currentTarget }) => copy(output.text(), currentTarget, box2);
  byId("streams").onchange = ({ target }) => {
    box2.dataset.show = target.value;
  };
  wrap.checked = browser.kept("wrap", false);
  const show7 = () => box2.classList.toggle("wrapped", wrap.checked);
  wrap.onchange = () => {
    browser.keep("wrap", wrap.checked);
    show7();
  };
  show7();
}

// app/run.js
var WAIT = 30;
var PAUSES = [500, 1e3, 2e3, 4e3];
var PATIENCE = 3e3;
var TELL_NOTHING = ["no_json", "protocol", "run_not_found"];
var KERNEL_ENDED = "The kernel has ended: its variables are lost, and the next stateful run begins with a new one.";
var KERNEL_LIVES = "The kernel and its variables live on.";
var pause = (milliseconds) => new Promise((resolve) => {
  setTimeout(resolve, milliseconds);
});
function newId2() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `run_${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
var Run = class {
  /** What the server knows it by. */
  id = newId2();
  /** When it was asked for. */
  since = Date.now();
  /** Whether the server has it: nobody can know before it has said so. */
  hasBegun = null;
  #began = Promise.withResolvers();
  #onBegin;
  #abort = new AbortController();
  #output;
  #next = 0;
  #total = 0;
  #missed = false;
  /** How an output ended that is longer than what the server keeps, and how much is missing before that. */
  #tail = null;
  #stopped = false;
  /**
   * Everything that is printed goes to `output`, and `onBegin` is called before the first of it. `before` is the run
   * that went on when the page was left.
   */
  constructor(output2, onBegin, before = null) {
    this.#output = output2;
    this.#onBegin = onBegin;
    if (!before) return;
    this.id = before.id;
    this.since = before.since;
    this.#begins();
  }
  /** Runs a program to its end and gives its outcome. */
  async execute(request2) {
    let outcome2;
    try {
      outcome2 = await this.#call("run_code", request2, { runId: this.id });
    } catch (error2) {
      if (this.hasBegun === false || error2.name === "AbortError") throw error2;
      return await this.#afterLoss(error2);
    }
    return this.#toItsEnd(outcome2);
  }
  /** Asks how the run stands after the connection was lost, and follows it to its end. */
  async ask() {
    return this.#toItsEnd(await this.#state({ waitSeconds: WAIT }));
  }
  /** Whether the server has it after all, as far as it answers. */
  async isThere() {
    await this.#call("get_run", { runId: this.id }).catch(() => {
    });
    return this.hasBegun === true;
  }
  /** The outcome of a run whose call broke off with an error. If it never began, that is why. */
  async #afterLoss(error2) {
    try {
      if (error2.isUnsent) await this.#call("get_run", { runId: this.id });
      return await this.ask();
    } catch (later) {
      if (this.hasBegun) throw later;
      if (later.code === "run_not_found") this.hasBegun = false;
      throw this.hasBegun === false && later.code !== "run_not_found" ? later : error2;
    }
  }
  /** Asks for the run, and again for as long as that may help. */
  async #state(args) {
    for (let failures = 0; ; failures += 1) {
      try {
        return await this.#call("get_run", { runId: this.id, ...args });
      } catch (error2) {
        const milliseconds = pauseAfter(error2, failures);
        if (milliseconds === null) throw error2;
        await pause(milliseconds);
      }
    }
  }
  /** Ends the run. Its outcome comes from `execute`. */
  async stop() {
    this.#stopped = true;
    await Promise.race([this.#began.promise, pause(PATIENCE)]);
    try {
      await withToken((token2) => callTool(token2, "cancel_run", { runId: this.id }));
    } catch (error2) {
      if (this.hasBegun || error2.code !== "run_not_found") {
        this.#stopped = false;
        throw error2;
      }
      this.#abort.abort();
    }
  }
  async #toItsEnd(first) {
    let outcome2 = first;
    while (outcome2.status === "running") outcome2 = await this.#state({ waitSeconds: WAIT });
    if (this.#missed) {
      this.#output.clear();
      this.#next = 0;
      this.#missed = false;
    }
    for (let before = -1; this.#next < this.#total && this.#next > before; ) {
      before = this.#next;
      await this.#state();
    }
    if (this.#tail?.leftOut) this.#output.gap(`${size(this.#tail.leftOut)} were left out here.`);
    this.#push(this.#tail?.tail ?? []);
    this.#output.end();
    return outcome2.status === "cancelled" && this.#stopped ? { ...outcome2, hint: kernelOf(outcome2) } : outcome2;
  }
  #begins() {
    if (this.hasBegun) return;
    this.hasBegun = true;
    this.#began.resolve();
    this.#onBegin();
  }
  async #call(tool, args, how = {}) {
    const onOutput = (told) => this.#take(told);
    const { signal } = this.#abort;
    try {
      const outcome2 = await withToken((token2) => callTool(token2, tool, args, { onOutput, offset: this.#next, signal, ...how }));
      this.#begins();
      return outcome2;
    } catch (error2) {
      if (error2 instanceof Refused && !TELL_NOTHING.includes(error2.code)) this.hasBegun = false;
      if (error2 instanceof TooMany && tool === "run_code") this.hasBegun ??= false;
      throw error2;
    }
  }
  #take({ offset, nextOffset, total: total2, pieces, leftOut, tail }) {
    this.#begins();
    if (tail) this.#tail = { leftOut, tail };
    this.#total = total2;
    if (offset < this.#next) return;
    if (offset > this.#next) this.#missed = true;
    this.#next = nextOffset;
    this.#push(pieces);
  }
  #push(pieces) {
    for (const { stream, text: text2 } of pieces) this.#output.push(stream, text2);
  }
};
function kernelOf({ kernelAlive }) {
  if (kernelAlive === void 0) return null;
  return kernelAlive ? KERNEL_LIVES : KERNEL_ENDED;
}
function pauseAfter(error2, failures) {
  if (error2 instanceof TooMany) return Math.max(error2.seconds * 1e3, PAUSES[failures] ?? PAUSES.at(-1));
  return error2 instanceof Unreachable ? PAUSES[failures] ?? null : null;
}

// app/status.js
var pill = byId("status");
var facts = byId("facts");
var clock = null;
function show6(state, word, figures = []) {
  clearInterval(clock);
  pill.dataset.state = state;
  pill.textContent = word;
  showInTitle({ state: word });
  facts.replaceChildren(...figures.map(([title, text2]) => make("span", { title }, text2)));
}
function showIdle() {
  show6("idle", "Ready");
  showInTitle({ state: "" });
}
function showProblem(word) {
  show6("bad", word);
  announce(word);
}
function showRunning(since) {
  const time = () => duration(Math.floor((Date.now() - since) / 100) * 100);
  show6("running", wordFor("running"), [["Time", time()]]);
  clock = setInterval(() => {
    facts.firstChild.textContent = time();
  }, 100);
  announce(wordFor("running"));
}
function showOutcome({ status, exitCode, durationMs, usage }) {
  const figures = [];
  if (exitCode !== null) figures.push(["Exit code", `exit ${exitCode}`]);
  figures.push(["Time", duration(durationMs)]);
  if (usage.peakMemoryBytes !== null) figures.push(["Peak memory", size(usage.peakMemoryBytes)]);
  if (usage.cpuMs !== null) figures.push(["Processor time", `${duration(usage.cpuMs)} CPU`]);
  show6(status === "ok" ? "good" : status === "cancelled" ? "idle" : "bad", wordFor(status), figures);
}
function tellOutcome({ status, exitCode, durationMs, hint, remedy, truncated, kernelRestartReason }, lack, button) {
  const isProblem = status !== "ok" && status !== "error";
  const reason2 = isProblem || status === "ok" || remedy ? hint : null;
  if (reason2) notice(isProblem ? "problem" : "note", reason2, button);
  const left = truncated.stdout + truncated.stderr;
  const notes = [
    kernelRestartReason,
    left && `The program printed ${size(left)} more than the server keeps. Have it write to a file instead.`
  ].filter(Boolean);
  for (const note of notes) notice("note", note);
  const code = exitCode === null ? "" : `, exit code ${exitCode}`;
  const said = [`${wordFor(status)}${code}, after ${duration(durationMs)}.`, lack, !isProblem && reason2, ...notes];
  announce(said.filter(Boolean).join(" "));
}

// app/upload.js
var input3 = byId("upload-input");
var most = Infinity;
var queue = Promise.resolve();
var setMostBytes = (bytes) => {
  most = bytes;
};
function take(files) {
  if (goToTyped()) enqueue(files);
}
function enqueue(files, into = conversation()) {
  for (const file of files) queue = queue.then(() => upload(file, into));
}
async function upload(file, conversationId) {
  const name = visibleName(file.name);
  const bar = make("progress", { max: file.size || 1, value: 0, ariaLabel: `Upload of ${name}` });
  const item = make("li", {}, make("bdi", { className: "file-name mono" }, name), bar, make("span", { className: "file-size" }, size(file.size)));
  byId("uploads").append(item);
  try {
    if (file.size > most) throw new Error(`It is ${size(file.size)}, and the server takes at most ${size(most)}.`);
    await assertReadable(file);
    const act = isPartOfPath(conversationId) ? (token2) => send(token2, addressOfFile(conversationId, file.name), file, bar) : (token2) => hand(token2, conversationId, file);
    await withToken(act);
    noteConversation(conversationId);
    announce(`${name} was uploaded${unlessHere(conversationId)}.`);
    if (conversationId === conversation()) showFiles([file.name]);
  } catch (error2) {
    const again = isPassing(error2) && { label: "Try again", act: () => enqueue([file], conversationId) };
    const isUnknown = error2 instanceof Unreachable;
    notice("problem", `${name} ${isUnknown ? "may not have been" : "was not"} uploaded${unlessHere(conversationId)}. ${error2.message}`, again);
    if (isUnknown) refresh();
  }
  item.remove();
}
async function assertReadable(file) {
  try {
    await file.slice(0, 1).arrayBuffer();
  } catch (error2) {
    throw new Error("The browser cannot read it. To upload a folder, pack it into one file first.", { cause: error2 });
  }
}
function send(token2, url, file, bar) {
  return new Promise((resolve, reject) => {
    const request2 = new XMLHttpRequest();
    request2.upload.onprogress = ({ loaded }) => {
      bar.value = loaded;
    };
    request2.onerror = () => reject(new Unreachable("The server does not answer."));
    request2.onload = () => {
      try {
        resolve(body(request2.status, request2.responseText, request2.getResponseHeader("Retry-After")));
      } catch (error2) {
        reject(error2);
      }
    };
    request2.open("PUT", url);
    if (token2) request2.setRequestHeader("Authorization", `Bearer ${token2}`);
    request2.send(file);
  });
}
async function hand(token2, conversationId, file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let binary = "";
  for (let at = 0; at < bytes.length; at += 32768) binary += String.fromCharCode(...bytes.subarray(at, at + 32768));
  await callTool(token2, "upload_file", { conversationId, filename: file.name, content: btoa(binary) });
}
function connectUpload() {
  byId("upload").onclick = () => {
    if (goToTyped()) input3.click();
  };
  input3.onchange = () => {
    take(input3.files);
    input3.value = "";
  };
  const brings = (event) => event.dataTransfer?.types.includes("Files");
  const show7 = (on) => document.body.classList.toggle("dropping", on);
  addEventListener("dragover", (event) => {
    if (!brings(event)) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = "copy";
    show7(true);
  });
  addEventListener("dragleave", (event) => event.relatedTarget === null && show7(false));
  addEventListener("drop", (event) => {
    if (!brings(event)) return;
    event.preventDefault();
    event.stopPropagation();
    show7(false);
    take(event.dataTransfer.files);
  }, true);
}

// app/who.js
var who = byId("who");
var logOutButton = byId("log-out");
var tokenButton = byId("open-token");
var WAYS = {
  token: "by a token",
  login: "by a login with a token",
  issuer: "by a login",
  cloudflare: "by Cloudflare Access"
};
function showWays(isLetIn2) {
  logOutButton.hidden = !isLoggedIn();
  tokenButton.hidden = isLoggedIn() || isLetIn2;
}
async function showWho() {
  showWays(false);
  try {
    const { tenant, by, name, expiresAt } = await withToken(me);
    showWays(by === "cloudflare");
    const isOfIssuer = by === "issuer" || by === "cloudflare";
    const text2 = isOfIssuer ? name ?? tenant : [tenant, name].filter(Boolean).join(" / ");
    const until = expiresAt && by === "token" ? `, until ${new Date(expiresAt).toLocaleString()}` : "";
    const title = `Tenant ${tenant}, known ${WAYS[by] ?? ""}${until}`;
    who.replaceChildren(make("span", { className: "hidden" }, "You are "), make("bdi", { title: visible(title) }, visible(text2)));
  } catch {
    who.replaceChildren();
  }
}
function connectWho(onIn) {
  showWays(false);
  logOutButton.onclick = async () => {
    let complaint = "";
    try {
      await logOut();
    } catch {
      complaint = "You are logged out on this page. The authorization server could not be told, and may still take the login.";
    }
    who.replaceChildren();
    showWays(false);
    askForToken("", complaint).then(onIn, () => {
    });
  };
}

// app/main.js
var PATIENCE2 = 1e3;
var runButton = byId("run");
var stopButton = byId("stop");
var running = null;
var lost2 = null;
var replaced = null;
var editor2 = createEditor({
  host: byId("editor"),
  labels: { name: "Program", description: "Press Escape and then Tab to leave the editor. Press Control and Enter, or Command and Enter, to run the program." },
  onRun: () => run(),
  onChange: () => keepDraft()
});
var keepDraft = () => keepHere("draft", { language: language2(), code: editor2.text() });
function request() {
  if (!goToTyped() || !areOptionsRight()) return null;
  return { conversationId: conversation(), language: language2(), code: editor2.text(), ...options() };
}
function showButtons(isRunning) {
  keepFocus(runButton.parentElement, isRunning ? stopButton : runButton, () => {
    runButton.hidden = isRunning;
    stopButton.hidden = !isRunning;
  });
  stopping(false);
}
var stopping = (yes) => stopButton.setAttribute("aria-disabled", String(yes));
async function run() {
  if (running || runButton.disabled) return;
  const wanted2 = request();
  if (!wanted2) return;
  optionsUsed();
  const { conversationId, language: language3, code } = wanted2;
  const live = new Run(output, () => beginResult(conversationId));
  const before = tab.kept("run");
  tab.keep("run", { id: live.id, since: live.since, conversationId, language: language3, code });
  clearNotices();
  if (!isUntouched(code)) forgetReplaced();
  if (matchMedia("(max-width: 899px)").matches) byId("result").scrollIntoView();
  await follow(live, wanted2, () => live.execute(wanted2));
  if (!live.hasBegun && tab.kept("run")?.id === live.id) tab.keep("run", before);
}
function resume() {
  const before = tab.kept("run");
  if (!before) return false;
  const live = new Run(output, () => beginResult(before.conversationId), before);
  follow(live, before, () => live.ask());
  return true;
}
async function follow(live, wanted2, outcome2) {
  running = live;
  lost2 = null;
  showButtons(true);
  showRunning(live.since);
  const slow = setTimeout(() => markOld(!live.hasBegun), PATIENCE2);
  try {
    const ended = await outcome2();
    tab.keep("run", null);
    showOutcome(ended);
    tellOutcome(ended, endResult(ended), adviceFor(ended.remedy, wanted2, run));
    remember(wanted2, ended);
    const changed2 = ended.files.filter((file) => file.new).map((file) => file.name);
    if (wanted2.conversationId === conversation()) showFiles(changed2);
  } catch (error2) {
    fail(live, wanted2, error2);
  } finally {
    clearTimeout(slow);
    running = null;
    showButtons(false);
  }
}
function fail(live, wanted2, error2) {
  const { hasBegun } = live;
  const isForgotten = hasBegun && error2.code === "run_not_found";
  if (isForgotten) tab.keep("run", null);
  if (!hasBegun) {
    markOld(true);
    if (wanted2.conversationId === conversation()) optionsUnused(wanted2);
  }
  if (error2.name === "AbortError") {
    showProblem(wordFor("cancelled"));
    return;
  }
  if (isForgotten) showProblem("Run not found");
  else showProblem(hasBegun ? "Connection lost" : "Not run");
  let again;
  if (hasBegun && !isForgotten) {
    lost2 = () => follow(live, wanted2, () => live.ask());
    again = { label: "Ask again", act: () => lost2?.() };
  } else if (isPassing(error2)) {
    again = { label: "Try again", act: () => tryAgain(live, wanted2) };
  }
  notice("problem", error2.message, again);
}
async function tryAgain(live, wanted2) {
  if (live.hasBegun === null && await live.isThere()) follow(live, wanted2, () => live.ask());
  else run();
}
function askForLost() {
  if (!lost2 || running || document.hidden || !navigator.onLine) return;
  clearNotices();
  lost2();
}
async function stop() {
  if (stopButton.ariaDisabled === "true") return;
  stopping(true);
  announce("Stopping");
  try {
    await running?.stop();
  } catch (error2) {
    stopping(false);
    notice("problem", `The run was not stopped. ${error2.message}`);
  }
}
async function begin4() {
  clearNotices();
  try {
    const { runners: runners2, limits, unavailable } = await withToken((token2) => callTool(token2, "list_runners", {}));
    showWho();
    setLimits(limits);
    setMostBytes(limits.uploadBytes);
    setRunners(runners2);
    restoreOptions();
    runButton.disabled = runners2.length === 0;
    if (unavailable) notice("problem", `Programs cannot be run now: ${unavailable}`, { label: "Try again", act: begin4 });
    else if (!runners2.length) notice("problem", "This server has no languages yet. Its operator can build them with ./build.sh.", { label: "Try again", act: begin4 });
    if (!running && !resume()) showIdle();
    showFiles();
  } catch (error2) {
    showProblem("No connection");
    notice("problem", error2.message, { label: "Try again", act: begin4 });
  }
}
function edit({ language: name, code }) {
  showLanguage(name);
  editor2.setText(code);
}
var isUntouched = (code) => isExample(code) || code === replaced?.by.code;
function replace2(next) {
  const now = { language: language2(), code: editor2.text(), conversationId: conversation() };
  const written = isUntouched(now.code) || now.code === next.code ? replaced?.written : now;
  if (next.conversationId) goTo(next.conversationId);
  edit(next);
  editor2.focus();
  forgetReplaced();
  if (written) offerUndo(written);
}
function offerUndo(written) {
  replaced = { written, by: { code: editor2.text(), conversationId: conversation() } };
  const text2 = "Your program was replaced.";
  notice("note", text2, { label: "Undo", act: undo }, byId("replaced"));
  announce(`${text2} The Undo button brings it back.`);
}
function undo() {
  const { written, by } = replaced;
  replaced = { written: null, by };
  const { conversationId, ...program } = written;
  replace2(conversation() === by.conversationId ? written : program);
  if (!replaced) announce("Your program is back.");
}
function forgetReplaced() {
  replaced = null;
  byId("replaced").replaceChildren();
}
connectLanguages(editor2, keepDraft, replace2);
connectOptions();
connectConversation(() => {
  clearNotices();
  forgetOutcome();
  showWhose();
  showFiles();
});
connectConversations();
connectResult();
connectToken(begin4, editor2.focus);
connectWho(begin4);
connectUpload();
connectFiles();
connectPackages();
connectCurl(request);
connectHistory(replace2);
byId("run-key").textContent = isMac ? "⌘ ↵" : "Ctrl ↵";
runButton.onclick = run;
stopButton.onclick = stop;
addEventListener("keydown", (event) => {
  const inDialog = document.querySelector("dialog[open]");
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.defaultPrevented && !inDialog) run();
});
addEventListener("online", askForLost);
document.addEventListener("visibilitychange", askForLost);
var draft = keptHere("draft");
if (draft) edit(draft);
else showFirstExample();
begin4();
