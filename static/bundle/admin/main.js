// app/dom.js
var byId = (id) => document.getElementById(id);
function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name2, value] of Object.entries(properties)) {
    if (name2 in element) element[name2] = value;
    else element.setAttribute(name2, value);
  }
  element.append(...children);
  return element;
}
function keepFocus(place3, next2, change) {
  const had = place3.contains(document.activeElement);
  change();
  const { activeElement, body: body2 } = document;
  if (had && (activeElement === body2 || !activeElement.checkVisibility())) next2.focus();
}
function openDialog(dialog3) {
  if (!dialog3.dataset.ready) {
    dialog3.dataset.ready = "yes";
    for (const button of dialog3.querySelectorAll("[data-close]")) button.onclick = () => dialog3.close();
    dialog3.addEventListener("click", (event) => {
      if (event.target === dialog3 && dialog3.querySelector("[data-close]:not([hidden])")) dialog3.close();
    });
  }
  if (!dialog3.open) dialog3.showModal();
}

// app/text.js
var isMac = navigator.platform.startsWith("Mac");
var CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;
var DIRECTIONS = /[\u202a-\u202e\u2066-\u2069]/g;
var IN_NAMES = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;
var codePoint = (character) => `‹U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}›`;
function visible(text) {
  return text.replace(CONTROLS, picture).replace(DIRECTIONS, codePoint);
}
var picture = (character) => character < " " ? String.fromCharCode(9216 + character.charCodeAt(0)) : codePoint(character);
var visibleName = (name2) => name2.replace(IN_NAMES, codePoint);
function size(bytes2) {
  if (bytes2 < 1e3) return `${bytes2} ${bytes2 === 1 ? "byte" : "bytes"}`;
  const units = ["kB", "MB", "GB"];
  let value = bytes2 / 1e3;
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

// app/notices.js
var place = byId("notices");
function notice(kind, text, again, where = place) {
  const role = kind === "problem" ? "alert" : "note";
  const box = make("div", { className: `notice ${kind}`, role }, make("p", {}, visible(text)));
  if (again) {
    const onclick = () => keepFocus(box, where, () => {
      box.remove();
      again.act();
    });
    box.append(make("button", { type: "button", className: "button", onclick }, again.label));
  }
  where.append(box);
}
var clearNotices = () => place.replaceChildren();
function announce(text) {
  const status = document.querySelector("dialog[open] [role=status]") ?? byId("announcement");
  status.textContent = text;
}

// app/api.js
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
var isOfProxy = (status) => status >= 502 && status <= 504 || status >= 520 && status <= 530;
function object(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

// app/store.js
var nameOf = (name2) => `mcp-code-sandbox-${name2}`;
var Store = class {
  #storage;
  #refused = /* @__PURE__ */ new Map();
  /** `storage` gives it: where cookies are blocked, browsers refuse to name it. */
  constructor(storage) {
    this.#storage = storage;
  }
  /** A kept value, or the given one where there is none or it cannot be read. */
  kept(name2, otherwise = null) {
    try {
      return JSON.parse(this.#refused.get(name2) ?? this.#storage().getItem(nameOf(name2))) ?? otherwise;
    } catch {
      return otherwise;
    }
  }
  /** Keeps a value in place of another. Nothing, `null`, is one too. */
  keep(name2, value) {
    const text = JSON.stringify(value);
    this.#refused.delete(name2);
    try {
      this.#storage().setItem(nameOf(name2), text);
    } catch {
      this.#refused.set(name2, text);
    }
  }
};
var browser = new Store(() => localStorage);
var tab = new Store(() => sessionStorage);

// admin/token.js
var NAME = "admin-token";
var dialog = byId("token-dialog");
var input = byId("token");
var error = byId("token-error");
var keepToken = byId("keep-token");
var forgetButton = byId("forget-token");
var waiting = null;
var kept = () => tab.kept(NAME) || browser.kept(NAME, "");
function keep(given, inBrowser) {
  tab.keep(NAME, given);
  if (inBrowser || browser.kept(NAME)) browser.keep(NAME, inBrowser ? given : null);
  forgetButton.hidden = !given;
}
async function token() {
  if (!kept()) {
    open();
    waiting ??= Promise.withResolvers();
    await waiting.promise;
  }
  return kept();
}
function dropToken(given) {
  if (kept() !== given) return;
  keep(null, false);
  error.textContent = "The server does not accept this token.";
  input.setAttribute("aria-invalid", "true");
}
function open() {
  openDialog(dialog);
  input.focus();
}
function connectToken() {
  forgetButton.hidden = !kept();
  forgetButton.onclick = () => {
    keep(null, false);
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
  dialog.addEventListener("close", () => {
    if (waiting) open();
  });
}

// admin/api.js
async function ask(path, { method = "GET", params = {} } = {}) {
  const url = new URL(`admin/v1/${path}`, document.baseURI);
  for (const [name2, value] of Object.entries(params)) {
    if (value !== "" && value !== null && value !== void 0) url.searchParams.set(name2, value);
  }
  for (; ; ) {
    const given = await token();
    try {
      return await once(method, url, given);
    } catch (error2) {
      if (!(error2 instanceof Unauthorized)) throw error2;
      dropToken(given);
    }
  }
}
async function once(method, url, given) {
  let response;
  try {
    response = await fetch(url, { method, headers: authorization(given), cache: "no-store" });
    return body(response.status, await response.text(), response.headers.get("retry-after"));
  } catch (error2) {
    if (error2 instanceof TypeError) throw new Unreachable("The server does not answer.", { cause: error2 });
    throw error2;
  }
}

// admin/rows.js
var Rows = class {
  #body;
  #empty;
  #keyOf;
  #cells;
  #rows = /* @__PURE__ */ new Map();
  /** The table with an id. `cells` gives what is in the cells of an entry: texts, elements, or `number(text)`. */
  constructor(id, keyOf2, cells) {
    this.#body = byId(id).tBodies[0];
    this.#empty = byId(`no-${id}`);
    this.#keyOf = keyOf2;
    this.#cells = cells;
  }
  /** Shows these entries in this order, and no others. */
  show(entries) {
    const before = this.#rows;
    this.#rows = /* @__PURE__ */ new Map();
    const rows6 = entries.map((entry) => {
      const key = this.#keyOf(entry);
      const row = before.get(key) ?? make("tr");
      this.#rows.set(key, row);
      fill(row, this.#cells(entry));
      return row;
    });
    place2(this.#body, rows6);
    this.#empty.hidden = rows6.length > 0;
  }
};
function place2(body2, rows6) {
  const wanted2 = new Set(rows6);
  for (const row of [...body2.rows]) if (!wanted2.has(row)) row.remove();
  rows6.forEach((row, index) => {
    if (body2.rows[index] !== row) body2.insertBefore(row, body2.rows[index] ?? null);
  });
}
function fill(row, cells) {
  cells.forEach((cell, index) => {
    const place3 = row.cells[index] ?? row.appendChild(make("td"));
    const { text, className = "", title = "" } = typeof cell === "object" && !(cell instanceof Node) && cell !== null ? cell : { text: cell };
    if (place3.className !== className) place3.className = className;
    if (place3.title !== title) place3.title = title;
    if (text instanceof Node) keepNode(place3, text);
    else if (place3.textContent !== (text ?? "")) place3.textContent = text ?? "";
  });
}
function keepNode(place3, node) {
  const now = place3.firstElementChild;
  if (!now?.isEqualNode(node)) place3.replaceChildren(node);
}
var number = (text) => ({ text, className: "number" });
var name = (text) => visible(text ?? "");
var has = (entry, search5) => JSON.stringify(entry).toLowerCase().includes(search5.trim().toLowerCase());

// admin/text.js
function time(text) {
  if (!text) return "";
  const date = new Date(text);
  const isToday = date.toDateString() === (/* @__PURE__ */ new Date()).toDateString();
  return { text: isToday ? date.toLocaleTimeString() : date.toLocaleString(), title: text };
}
var bytes = (count) => count === null || count === void 0 ? "" : size(count);
var span = (milliseconds) => milliseconds === null || milliseconds === void 0 ? "" : duration(milliseconds);
var link = (text, view, label) => make("a", { href: `#${view}`, ...label && { "aria-label": label } }, visible(text));
var conversationLink = (key) => link(key.slice(0, 12), `conversation/${key}`, `Conversation ${key.slice(0, 12)}`);

// admin/audit.js
var MOST = 1e3;
var FIRST = 200;
var search = byId("audit-search");
var note = byId("audit-note");
var events = [];
var after = null;
function rest({ seq, at, event, tenant: tenant3, prev, ...others }) {
  return Object.entries(others).filter(([, value]) => value !== null).map(([key, value]) => `${key}: ${typeof value === "object" ? JSON.stringify(value) : value}`).join(", ");
}
var rows = new Rows("audit", ({ seq }) => seq, (line) => [
  number(String(line.seq)),
  time(line.at),
  name(line.event),
  name(line.tenant),
  { text: name(rest(line)), className: "wide" }
]);
var show = () => rows.show(events.filter((line) => has(line, search.value)).toReversed());
async function refreshAudit() {
  let page;
  try {
    page = await ask("audit", { params: after === null ? { limit: FIRST } : { after } });
  } catch (error2) {
    if (error2.code !== "no_audit_log") throw error2;
    note.textContent = "AUDIT_LOG names no file, so there is nothing to read.";
    return;
  }
  note.textContent = "";
  events = [...events, ...page.events].slice(-MOST);
  after = page.next ?? after;
  show();
}
function connectAudit() {
  search.oninput = show;
}

// admin/confirm.js
var dialog2 = byId("confirm-dialog");
function confirm(title, text, yes) {
  byId("confirm-title").textContent = title;
  byId("confirm-text").textContent = visible(text);
  byId("confirm-yes").textContent = yes;
  const { promise, resolve } = Promise.withResolvers();
  byId("confirm-yes").onclick = () => {
    dialog2.close("yes");
  };
  byId("confirm-no").onclick = () => {
    dialog2.close();
  };
  dialog2.onclose = () => resolve(dialog2.returnValue === "yes");
  dialog2.returnValue = "";
  openDialog(dialog2);
  return promise;
}

// admin/conversations.js
var LIMIT = 200;
var search2 = byId("conversations-search");
var sort = byId("conversations-sort");
var tenant = byId("conversations-tenant");
var moreButton = byId("more-conversations");
var all = [];
var next = null;
var rows2 = new Rows("conversations", ({ key }) => key, (each) => [
  conversationLink(each.key),
  name(each.tenant),
  time(each.lastUsedAt),
  time(each.createdAt),
  number(bytes(each.storedBytes)),
  number(String(each.warmSandboxes)),
  name(each.kernels.join(", ")),
  number(String(each.activeRuns)),
  make("button", { type: "button", className: "button", "data-key": each.key, "aria-label": `Delete ${each.key.slice(0, 12)}` }, "Delete")
]);
function show2() {
  const found = all.filter((each) => has(each, search2.value));
  rows2.show(found);
  moreButton.hidden = next === null;
  byId("conversations-note").textContent = `${found.length} of ${all.length}${next === null ? "" : ", and more"}`;
}
async function load(cursor) {
  return await ask("conversations", { params: { sort: sort.value, tenant: tenant.value, limit: LIMIT, cursor } });
}
async function refreshConversations() {
  const page = await load(null);
  all = page.conversations;
  next = page.nextCursor ?? null;
  show2();
}
async function more() {
  try {
    const page = await load(next);
    const known = new Set(all.map(({ key }) => key));
    all = [...all, ...page.conversations.filter(({ key }) => !known.has(key))];
    next = page.nextCursor ?? null;
    show2();
    announce(`${all.length} conversations`);
  } catch (error2) {
    notice("problem", error2.message);
  }
}
async function deleteConversation(key) {
  const text = `All files of ${key.slice(0, 12)} are deleted, and its runs and kernels end. It cannot be undone.`;
  if (!await confirm("Delete this conversation?", text, "Delete")) return false;
  try {
    await ask(`conversations/${encodeURIComponent(key)}`, { method: "DELETE" });
    announce("The conversation was deleted.");
    return true;
  } catch (error2) {
    notice("problem", `The conversation was not deleted. ${error2.message}`);
    return false;
  }
}
function connectConversations(refresh2) {
  search2.oninput = show2;
  sort.onchange = refresh2;
  tenant.onchange = refresh2;
  moreButton.onclick = more;
  byId("conversations").addEventListener("click", async (event) => {
    const key = event.target.closest("button")?.dataset.key;
    if (!key || !await deleteConversation(key)) return;
    all = all.filter((each) => each.key !== key);
    show2();
    byId("view").focus();
  });
}

// admin/conversation.js
var shown = "";
var files = new Rows("files", (file) => file.name, (file) => [
  { text: make("a", { href: file.url, rel: "noopener", download: "" }, visibleName(file.name)), className: "wide" },
  number(bytes(file.size)),
  name(file.mimeType)
]);
var fact = (label, value) => [make("dt", {}, label), make("dd", {}, visible(value || "–"))];
async function refreshConversation(key) {
  if (shown !== key) files.show([]);
  shown = key;
  byId("conversation-key").textContent = key;
  const found = await ask(`conversations/${encodeURIComponent(key)}`);
  const told2 = (at) => time(at).text ?? "";
  byId("conversation-facts").replaceChildren(
    ...fact("Tenant", found.tenant),
    ...fact("Last used", told2(found.lastUsedAt)),
    ...fact("Created", told2(found.createdAt)),
    ...fact("Size", bytes(found.storedBytes)),
    ...fact("Warm sandboxes", String(found.warmSandboxes)),
    ...fact("Kernels", found.kernels.join(", ")),
    ...fact("Runs in progress", String(found.activeRuns))
  );
  files.show(found.files);
  byId("files-count").textContent = String(found.files.length);
  const skipped = found.skipped ? `${found.skipped} files have names that are not UTF-8.` : "";
  byId("files-note").textContent = [found.truncated, skipped].filter(Boolean).map(String).join(" ");
}
function connectConversation() {
  byId("delete-conversation").onclick = async () => {
    if (await deleteConversation(shown)) location.hash = "conversations";
  };
}

// admin/runs.js
var MOST2 = 500;
var search3 = byId("runs-search");
var activeOnly = byId("runs-active");
var all2 = { runs: [] };
var STAGES = {
  entering: "Entering",
  waiting_for_kernel: "Waiting for the kernel",
  waiting: "Waiting for a place",
  starting: "Starting"
};
var isRunning = ({ status }) => status === "running";
var statusOf = (run) => isRunning(run) ? STAGES[run.stage] ?? wordFor("running") : wordFor(run.status);
function pill(run) {
  const state = isRunning(run) ? "running" : run.status === "ok" ? "good" : run.status === "cancelled" ? "idle" : "bad";
  return make("span", { className: "pill", "data-state": state }, statusOf(run));
}
var took = (run) => span(run.wallMs ?? (isRunning(run) ? Math.floor((Date.now() - new Date(run.createdAt)) / 1e3) * 1e3 : null));
var keyOf = ({ id, subject }) => `${subject} ${id}`;
var rows3 = new Rows("runs", keyOf, (run) => [
  pill(run),
  name(run.tenant),
  name(run.token ?? run.subject),
  name(run.language),
  run.conversation ? conversationLink(run.conversation) : "",
  time(run.createdAt),
  number(took(run)),
  number(span(run.cpuMs)),
  { text: name(run.id.slice(0, 16)), title: name(run.id) },
  isRunning(run) ? make("button", { type: "button", className: "button", "data-run": keyOf(run), "aria-label": `Cancel ${name(run.id)}` }, "Cancel") : ""
]);
function show3() {
  rows3.show(all2.runs.filter((run) => has(run, search3.value)));
  const running = all2.runs.filter(isRunning).length;
  byId("runs-note").textContent = `${running} in progress${all2.nextCursor ? `, of the latest ${MOST2}` : ""}`;
}
async function refreshRuns() {
  all2 = await ask("runs", { params: { active: activeOnly.checked ? 1 : "", limit: MOST2 } });
  show3();
}
async function cancel(run) {
  const title = "Cancel this run?";
  const text = `The ${run.language} program of ${run.token ?? run.subject} (${run.tenant}) is ended, and its caller is told so.`;
  if (!await confirm(title, text, "Cancel the run")) return;
  try {
    const ended = await ask(`runs/${encodeURIComponent(run.id)}`, { method: "DELETE", params: { subject: run.subject } });
    announce(isRunning(ended) ? "The run is being ended." : "The run has ended.");
    await refreshRuns();
  } catch (error2) {
    notice("problem", `The run was not cancelled. ${error2.message}`);
  }
  byId("view").focus();
}
function connectRuns(refresh2) {
  search3.oninput = show3;
  activeOnly.onchange = refresh2;
  byId("runs").addEventListener("click", (event) => {
    const key = event.target.closest("button")?.dataset.run;
    const run = all2.runs.find((each) => keyOf(each) === key);
    if (run) cancel(run);
  });
}

// admin/tenants.js
var MOST3 = 500;
var search4 = byId("tenants-search");
var all3 = [];
var told = (at, never) => at ? time(at).text : never;
function tokenText({ name: of, expiresAt, lastUsedAt }) {
  return name(`${of} (last used ${told(lastUsedAt, "never")}${expiresAt ? `, expires ${told(expiresAt)}` : ""})`);
}
function limitText({ maxRuns, maxKernels, rateLimit, storageLimit, workspaceQuota, languages, network }) {
  const parts = [
    maxRuns !== null && `${maxRuns} runs`,
    maxKernels !== null && `${maxKernels} kernels`,
    rateLimit,
    storageLimit !== null && bytes(storageLimit),
    workspaceQuota !== null && `${bytes(workspaceQuota)} each`,
    languages?.join(", "),
    network === false && "no network"
  ];
  return name(parts.filter(Boolean).join("; "));
}
var rows4 = new Rows("tenants", (each) => each.name, (each) => [
  link(each.name, `conversations/${each.name}`, `Conversations of ${each.name}`),
  { text: each.tokens.map(tokenText).join(", "), className: "wide" },
  { text: limitText(each.limits), className: "wide" },
  number(String(each.conversations)),
  number(bytes(each.storedBytes)),
  number(String(each.activeRuns)),
  number(String(each.runs24h)),
  number(span(each.cpuMs24h))
]);
var show4 = () => rows4.show(all3.filter((each) => has(each, search4.value)));
async function allTenants() {
  const found = [];
  let cursor = null;
  do {
    const page = await ask("tenants", { params: { limit: MOST3, cursor } });
    found.push(...page.tenants);
    cursor = page.nextCursor ?? null;
  } while (cursor !== null);
  return found;
}
async function refreshTenants() {
  all3 = await allTenants();
  show4();
}
async function offerTenants(id, chosen) {
  const select = byId(id);
  const value = chosen ?? select.value;
  const names = (await allTenants()).map((each) => each.name);
  if (value && !names.includes(value)) names.push(value);
  select.replaceChildren(make("option", { value: "" }, "All"), ...names.map((each) => make("option", { value: each }, name(each))));
  select.value = value;
}
function connectTenants() {
  search4.oninput = show4;
}

// admin/chart.js
var [WIDTH, HEIGHT, LEFT, BOTTOM, TOP] = [640, 200, 72, 28, 10];
function svg(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name2, value] of Object.entries(attributes)) element.setAttribute(name2, String(value));
  element.append(...children);
  return element;
}
function daysBetween(from2, to2) {
  const days = [];
  for (let day = Date.parse(from2); day <= Date.parse(to2); day += 864e5) days.push(new Date(day).toISOString().slice(0, 10));
  return days;
}
function chart(days, parts, title, told2 = String) {
  const sums = days.map((day) => parts.reduce((sum, { values }) => sum + (values.get(day) ?? 0), 0));
  const most = Math.max(...sums, 1);
  const step = (WIDTH - LEFT) / days.length;
  const height = (value) => value / most * (HEIGHT - TOP - BOTTOM);
  const bars = days.flatMap((day, index) => {
    let top = HEIGHT - BOTTOM;
    return parts.map(({ name: name2, label: label2, values }) => {
      const value = values.get(day) ?? 0;
      top -= height(value);
      const place3 = { x: LEFT + index * step + step * 0.1, y: top, width: step * 0.8, height: height(value), class: name2 };
      return value ? svg("rect", place3, svg("title", {}, `${day}: ${told2(value)} ${label2}`)) : "";
    });
  });
  const axis = svg("line", { x1: LEFT, x2: WIDTH, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM, class: "axis" });
  const text = (x, y, anchor, content) => svg("text", { x, y, "text-anchor": anchor }, content);
  const labels = [
    text(LEFT - 6, TOP + 8, "end", told2(most)),
    text(LEFT, HEIGHT - 6, "start", days[0] ?? ""),
    text(WIDTH, HEIGHT - 6, "end", days.at(-1) ?? "")
  ];
  const total = sums.reduce((sum, value) => sum + value, 0);
  const label = `${title}: ${told2(total)} from ${days[0]} to ${days.at(-1)}, at most ${told2(Math.max(...sums, 0))} a day`;
  const drawn = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "chart", role: "img", "aria-label": label }, axis, ...labels, ...bars);
  const legend = parts.length > 1 ? [make("p", { className: "legend" }, ...parts.map(({ name: name2, label: of }) => make("span", { className: name2 }, of)))] : [];
  return [drawn, ...legend];
}

// admin/usage.js
var [from, to, tenant2] = ["usage-from", "usage-to", "usage-tenant"].map(byId);
var ok = ({ runs }) => runs.ok ?? 0;
var all4 = ({ runs }) => Object.values(runs).reduce((sum, count) => sum + count, 0);
var rows5 = new Rows("usage", (each) => JSON.stringify([each.tenant, each.language]), (each) => [
  name(each.tenant),
  name(each.language ?? "–"),
  number(String(all4(each))),
  number(String(all4(each) - ok(each))),
  number(span(each.cpuMs)),
  number(span(each.wallMs)),
  number(String(each.installs)),
  number(bytes(each.uploadedBytes)),
  number(bytes(each.downloadedBytes))
]);
async function refreshUsage() {
  const params = { from: from.value, to: to.value, tenant: tenant2.value };
  const [byDay, byTenant] = await Promise.all([
    ask("usage", { params: { ...params, group: "day" } }),
    ask("usage", { params: { ...params, group: "tenant,language" } })
  ]);
  from.value ||= byDay.from;
  to.value ||= byDay.to;
  const days = daysBetween(byDay.from, byDay.to);
  const values = (of) => new Map(byDay.usage.map((each) => [each.day, of(each)]));
  const runs = [
    { name: "ok", label: "ok", values: values(ok) },
    { name: "not-ok", label: "not ok", values: values((each) => all4(each) - ok(each)) }
  ];
  byId("chart-runs").replaceChildren(...chart(days, runs, "Runs"));
  const cpu = [{ name: "ok", label: "of processor time", values: values((each) => each.cpuMs) }];
  byId("chart-cpu").replaceChildren(...chart(days, cpu, "Processor time", span));
  rows5.show(byTenant.usage);
}
var beginUsage = () => offerTenants("usage-tenant");
function connectUsage(refresh2) {
  byId("usage-form").onsubmit = (event) => event.preventDefault();
  for (const field of [from, to, tenant2]) field.onchange = refresh2;
}

// admin/main.js
var LIVE = 2e3;
var SLOW = 15e3;
var KEY = /^[0-9a-f]{64}$/;
var VIEWS = {
  runs: { refresh: refreshRuns, every: LIVE },
  conversations: { begin: (tenant3) => offerTenants("conversations-tenant", tenant3), refresh: refreshConversations },
  conversation: { refresh: refreshConversation, every: SLOW, within: "conversations", takes: KEY },
  tenants: { refresh: refreshTenants, every: SLOW },
  usage: { begin: beginUsage, refresh: refreshUsage },
  audit: { refresh: refreshAudit, every: LIVE }
};
var shown2 = { name: "", about: void 0 };
var timer = null;
var turn = 0;
function wanted() {
  const [name2, about] = location.hash.slice(1).split("/");
  if (!Object.hasOwn(VIEWS, name2)) return { name: "runs" };
  const { takes, within } = VIEWS[name2];
  return !takes || takes.test(about) ? { name: name2, about } : { name: within };
}
async function refresh(isFirst = false) {
  clearTimeout(timer);
  const { name: name2, about } = shown2;
  const { begin, refresh: ask2, every } = VIEWS[name2];
  turn += 1;
  const mine = turn;
  try {
    if (isFirst) await begin?.(about);
    await ask2(about);
    if (mine === turn) clearNotices();
  } catch (error2) {
    if (mine !== turn) return;
    clearNotices();
    notice("problem", error2.message, { label: "Try again", act: () => refresh() });
  }
  if (mine === turn && every) timer = setTimeout(tick, every);
}
function tick() {
  if (document.hidden || document.querySelector("dialog[open]")) timer = setTimeout(tick, LIVE);
  else refresh();
}
function go() {
  const before = shown2.name;
  shown2 = wanted();
  for (const name2 of Object.keys(VIEWS)) byId(`view-${name2}`).hidden = name2 !== shown2.name;
  const current = VIEWS[shown2.name].within ?? shown2.name;
  for (const link2 of document.querySelectorAll("nav a")) {
    if (link2.hash === `#${current}`) link2.setAttribute("aria-current", "page");
    else link2.removeAttribute("aria-current");
  }
  clearNotices();
  document.title = `${byId(`${shown2.name}-title`).textContent} – Administration`;
  if (before) byId("view").focus();
  refresh(true);
}
connectToken();
connectRuns(() => refresh());
connectConversations(() => refresh());
connectConversation();
connectTenants();
connectUsage(() => refresh());
connectAudit();
addEventListener("hashchange", go);
go();
