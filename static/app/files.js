// The files of the conversation: list, thumbnails, downloads, deletion.

import { callTool, Unreachable } from "./api.js";
import { conversation, unlessHere } from "./conversation.js";
import { byId, icon, keepFocus, make, openDialog } from "./dom.js";
import { notice } from "./notices.js";
import { size, visibleName } from "./text.js";
import { hasToken, withToken } from "./token.js";

const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/** Larger pictures are not loaded for a thumbnail. */
const MOST_FOR_THUMBNAIL = 8e6;
/** Milliseconds until links are renewed, whatever they say: clocks differ, and timers have a longest time. */
const SOONEST = 10_000;
const LATEST = 86_400_000;
const list = byId("file-list");
/** What is on the screen: files, each with its row, and whether there are more. */
let shown = { rows: [], truncated: null };
/** Names that are marked as new. */
let marked = new Set();
/** How often the files were asked for, and how many answers are still to come. */
let asked = 0;
let waiting = 0;
/** The refresh before links end. */
let renewal = null;

/** Where the page gets a file: from its own server, whatever name the server has in links. */
export function address(url) {
  const { pathname, search } = new URL(url);
  const at = pathname.search(/\/files\/[0-9a-f]{64}\//);
  return new URL(`.${pathname.slice(at)}${search}`, document.baseURI).href;
}

const isPicture = (file) => PICTURES.includes(file.mimeType) && file.size <= MOST_FOR_THUMBNAIL;

/** An address that is used once: browsers show a picture from memory when they have one of the same address. */
function fresh(file) {
  const url = new URL(address(file.url));
  url.searchParams.set("shown", Date.now());
  return url.href;
}

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
    take(inOrder(files), truncated);
    renewInTime(files);
  } catch (error) {
    if (isLatest()) throw error;
  } finally {
    waiting -= 1;
  }
}

/** Shows the files of the conversation. Names in `changed` are marked as new. */
export async function showFiles(changed = []) {
  marked = new Set(changed);
  try {
    await ask(show);
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
const inOrder = (files) => [...files.filter(isNew), ...files.filter((file) => !isNew(file))];
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

function show(files, truncated) {
  keepFocus(byId("files"), byId("upload"), () => replace(files, truncated));
}

function replace(files, truncated) {
  shown = { rows: files.map((file) => ({ file, row: entry(file) })), truncated };
  list.replaceChildren(...shown.rows.map(({ row }) => row));
  if (truncated) list.append(make("li", { className: "note" }, truncated));
  byId("files-count").textContent = files.length ? String(files.length) : "";
  byId("no-files").hidden = files.length > 0;
  byId("delete-files").hidden = files.length === 0;
}

function entry(file) {
  const name = visibleName(file.name);
  const face = isPicture(file)
    ? make("button", { type: "button", className: "thumbnail", ariaLabel: `Show ${name}`, onclick: () => openPicture(file) },
        // Which is asked for as soon as it has an address.
        make("img", { loading: "lazy", decoding: "async", alt: "", width: 40, height: 40, src: fresh(file) }))
    : make("span", { className: "thumbnail" }, icon("file"));
  const download = make("a", {
    className: "button quiet icon-only", href: address(file.url), download: file.name, ariaLabel: `Download ${name}`,
  }, icon("download"));
  return make("li", {}, face,
    make("bdi", { className: "file-name mono", title: name }, name),
    ...(isNew(file) ? [make("span", { className: "badge" }, "new")] : []),
    make("span", { className: "file-size" }, size(file.size)),
    download);
}

/** Shows the pictures that a run made, large, below its output. */
export function showPictures(files) {
  const pictures = files.filter((file) => file.new && isPicture(file)).slice(0, 8);
  byId("pictures").replaceChildren(...pictures.map((file) => {
    const name = visibleName(file.name);
    return make("figure", {},
      make("button", { type: "button", ariaLabel: `Show ${name}`, onclick: () => openPicture(file) },
        make("img", { src: fresh(file), alt: `Picture made by the program: ${name}`, decoding: "async" })),
      make("figcaption", {}, make("bdi", { className: "mono" }, name)));
  }));
}

/** The file with the link that was given last. */
function latest(file) {
  const path = ({ url }) => new URL(url).pathname;
  return shown.rows.find((row) => path(row.file) === path(file))?.file ?? file;
}

function openPicture(picture) {
  const file = latest(picture);
  const name = visibleName(file.name);
  byId("picture-title").textContent = name;
  Object.assign(byId("picture"), { src: fresh(file), alt: `Picture: ${name}` });
  Object.assign(byId("picture-download"), { href: address(file.url), download: file.name });
  openDialog(byId("picture-dialog"));
}

/** Connects the deletion, and keeps the list up to date. */
export function connectFiles() {
  const dialog = byId("delete-dialog");
  byId("delete-files").onclick = () => openDialog(dialog);
  byId("confirm-delete").onclick = async () => {
    dialog.close();
    const conversationId = conversation();
    try {
      await withToken((token) => callTool(token, "delete_conversation", { conversationId }));
    } catch (error) {
      const isUnknown = error instanceof Unreachable;
      notice("problem", `The files ${isUnknown ? "may not have been" : "were not"} deleted${unlessHere(conversationId)}. ${error.message}`);
      if (isUnknown) refresh();
      return;
    }
    if (conversationId === conversation()) showFiles();
  };
  addEventListener("focus", refresh);
  document.addEventListener("visibilitychange", refresh);
}
