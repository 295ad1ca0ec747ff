// The files of the conversation: asked for, listed with thumbnails, filtered and ordered, and kept up to date.

import { callTool } from "./api.js";
import { conversation } from "./conversation.js";
import { byId, icon, keepFocus, make } from "./dom.js";
import { askToDelete, askToRename, connectFileActions } from "./file-actions.js";
import { address, fresh, isPicture } from "./links.js";
import { notice } from "./notices.js";
import { arranged, total } from "./order.js";
import { connectPreview, openFile } from "./preview.js";
import { browser } from "./store.js";
import { size, visibleName } from "./text.js";
import { hasToken, withToken } from "./token.js";

/** Larger pictures are not loaded for a thumbnail. */
const MOST_FOR_THUMBNAIL = 8e6;
/** Milliseconds until links are renewed, whatever they say: clocks differ, and timers have a longest time. */
const SOONEST = 10_000;
const LATEST = 86_400_000;
const list = byId("file-list");
const filter = byId("files-filter");
const order = byId("files-order");
/** What there is, as the server lists it: files, each with its row, and whether there are more. */
let shown = { rows: [], truncated: null };
/** Names that are marked as new. */
let marked = new Set();
/** How often the files were asked for, and how many answers are still to come. */
let asked = 0;
let waiting = 0;
/** The refresh before links end. */
let renewal = null;

const isSmallPicture = (file) => isPicture(file) && file.size <= MOST_FOR_THUMBNAIL;

/** All files: the server lists them page by page. */
async function listAll(token, conversationId) {
  const files = [];
  let page = {};
  do {
    const next = page.nextCursor ? { cursor: page.nextCursor } : {};
    page = await callTool(token, "list_files", { conversationId, ...next });
    files.push(...page.files);
  } while (page.nextCursor);
  return { files, truncated: page.truncated };
}

/** Asks for the files and gives them to `take`, unless they were asked for again meanwhile. */
async function ask(take) {
  asked += 1;
  waiting += 1;
  const turn = asked;
  const conversationId = conversation();
  const isLatest = () => turn === asked && conversationId === conversation();
  try {
    const { files, truncated } = await withToken((token) => listAll(token, conversationId));
    if (!isLatest()) return;
    take(files, truncated);
    renewInTime(files);
  } catch (error) {
    if (isLatest()) throw error;
  } finally {
    waiting -= 1;
  }
}

/** Shows the files of the conversation. Names in `changed` are marked as new. `next` is named if it is to have the focus. */
export async function showFiles(changed = [], next = changed[0]) {
  marked = new Set(changed);
  try {
    await ask((files, truncated) => show(files, truncated, next));
  } catch (error) {
    notice("problem", `The files cannot be shown. ${error.message}`, { label: "Try again", act: () => showFiles(changed) });
  }
}

/** Shows the files that there are now: others make some too, and links end. */
export async function refresh() {
  // Who comes back to it asks again.
  if (document.hidden) return;
  // Whatever comes of this, or of another question that is on its way: the links that are shown still end.
  renewInTime(shown.rows.map(({ file }) => file));
  if (waiting || !hasToken()) return;
  try {
    await ask((files, truncated) => renew(files, truncated) || show(files, truncated));
  } catch {
    // Nobody asked for it: what was shown stays.
  }
}

const isNew = ({ name }) => marked.has(name);
const isSame = (one, other) => one.name === other.name && one.size === other.size && one.mimeType === other.mimeType;

/** Gives rows their new links, where the files are the same: a row that is replaced would be lost to mouse and keyboard. */
function renew(files, truncated) {
  const { rows } = shown;
  if (files.length !== rows.length || truncated !== shown.truncated || !rows.every(({ file }, at) => isSame(file, files[at]))) return false;
  rows.forEach(({ file, row }, at) => {
    file.url = files[at].url;
    row.querySelector("a").href = address(file.url);
    const picture = row.querySelector("img");
    // Not loaded yet, or in vain.
    if (picture?.naturalWidth === 0) picture.src = fresh(file);
  });
  return true;
}

/** Asks for new links half-way to the end of these, if they have one. */
function renewInTime(files) {
  clearTimeout(renewal);
  const end = Math.min(...files.map(({ url }) => Number(new URL(url).searchParams.get("exp")) || Infinity)) * 1000;
  if (end < Infinity) renewal = setTimeout(refresh, Math.min(Math.max((end - Date.now()) / 2, SOONEST), LATEST));
}

const rowOf = (name) => shown.rows.find(({ file }) => file.name === name)?.row;

function show(files, truncated, next) {
  const focus = () => (rowOf(next)?.querySelector("button") ?? byId("upload")).focus();
  keepFocus(byId("files"), { focus }, () => replace(files, truncated));
}

function replace(files, truncated) {
  shown = { rows: files.map((file) => ({ file, row: entry(file) })), truncated };
  const isEmpty = files.length === 0;
  byId("no-files").hidden = !isEmpty;
  for (const id of ["delete-files", "download-files"]) byId(id).hidden = isEmpty;
  byId("files-size").textContent = isEmpty ? "" : size(total(files));
  // One file needs no search.
  byId("files-tools").hidden = files.length < 2;
  if (files.length < 2) filter.value = "";
  keepHeight();
  arrange();
}

/** Keeps the list as high as it is while something is looked for: the field is above it, and would move otherwise. */
function keepHeight() {
  const { style, offsetHeight } = byId("files");
  style.minHeight = filter.value && `${offsetHeight}px`;
}

/** Shows the rows that are asked for, in the order that is asked for. */
function arrange() {
  const files = shown.rows.map(({ file }) => file);
  const found = arranged(files, { order: order.value, filter: filter.value, isNew });
  list.replaceChildren(...found.map(({ name }) => rowOf(name)));
  if (shown.truncated) list.append(make("li", { className: "note" }, shown.truncated));
  const all = files.length ? String(files.length) : "";
  byId("files-count").textContent = found.length < files.length ? `${found.length} of ${all}` : all;
  byId("none-matches").hidden = found.length > 0 || files.length === 0;
}

/** The name that stands after another one, or else before it. */
function neighbour(name) {
  const names = [...list.children].map((row) => shown.rows.find((other) => other.row === row)?.file.name);
  const at = names.indexOf(name);
  return names[at + 1] ?? names[at - 1];
}

function entry(file) {
  const name = visibleName(file.name);
  const face = isSmallPicture(file)
    // Which is asked for as soon as it has an address.
    ? make("img", { loading: "lazy", decoding: "async", alt: "", width: 40, height: 40, src: fresh(file) })
    : icon("file");
  const act = (symbol, label, onclick) => make("button", {
    type: "button", className: `button quiet icon-only ${symbol}-one`, ariaLabel: `${label} ${name}`, title: label, onclick,
  }, icon(symbol));
  return make("li", {},
    make("button", { type: "button", className: "file-open", title: name, onclick: () => openFile(file) },
      make("span", { className: "thumbnail" }, face),
      make("bdi", { className: "file-name mono" }, name)),
    ...(isNew(file) ? [make("span", { className: "badge" }, "new")] : []),
    make("span", { className: "file-size" }, size(file.size)),
    act("rename", "Rename", () => askToRename(file)),
    act("delete", "Delete", () => askToDelete(file, neighbour(file.name))),
    make("a", {
      className: "button quiet icon-only", href: address(file.url), download: file.name, ariaLabel: `Download ${name}`, title: "Download",
    }, icon("download")));
}

/** Shows the pictures that a run made, large, below its output. */
export function showPictures(files) {
  const pictures = files.filter((file) => file.new && isSmallPicture(file)).slice(0, 8);
  byId("pictures").replaceChildren(...pictures.map((file) => {
    const name = visibleName(file.name);
    return make("figure", {},
      make("button", { type: "button", ariaLabel: `Show ${name}`, onclick: () => openFile(latest(file)) },
        make("img", { src: fresh(file), alt: `Picture made by the program: ${name}`, decoding: "async" })),
      make("figcaption", {}, make("bdi", { className: "mono" }, name)));
  }));
}

/** The file with the link that was given last. */
function latest(file) {
  const path = ({ url }) => new URL(url).pathname;
  return shown.rows.find((row) => path(row.file) === path(file))?.file ?? file;
}

/** Connects the controls, and keeps the list up to date. */
export function connectFiles() {
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
