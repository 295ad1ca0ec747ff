// Shows one file: a picture, a table, text, or a page in a frame that has no part in this one.

import { byId, make, openDialog } from "./dom.js";
import { askToRename } from "./file-actions.js";
import { address, addressInFrame, fresh, isPicture } from "./links.js";
import { tableOf } from "./table.js";
import { size, visible, visibleName } from "./text.js";

/** Bytes of a text that are read at most. */
const MOST_BYTES = 512 << 10;

const dialog = byId("file-dialog");
const box = byId("preview");
const ways = byId("preview-ways");
/** What is on its way to be shown. */
let loading = null;

/** The ways in which a file can be shown, the best first. */
function waysOf(file) {
  if (isPicture(file)) return [["Picture", showPicture]];
  if (/\.html?$/i.test(file.name)) return [["Page", showPage], ["Source", showText]];
  if (/\.(csv|tsv|tab)$/i.test(file.name)) return [["Table", showTable], ["Text", showText]];
  return [["Text", showText]];
}

const say = (text) => { byId("preview-note").textContent = text; };

function showPicture(file) {
  const name = visibleName(file.name);
  const picture = make("img", { id: "picture", alt: `Picture: ${name}` });
  picture.onload = () => say(`${picture.naturalWidth} × ${picture.naturalHeight}, ${size(file.size)}`);
  picture.onerror = () => say("The browser cannot show this picture. It may be broken, or gone.");
  picture.src = fresh(file);
  box.replaceChildren(picture);
}

/** A page and its scripts get an origin of their own and no network: the server says so, and the frame does. */
function showPage(file) {
  // Browsers say where the page is wanted only to servers that they trust, and the server gives it to a frame alone.
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
  const read = await begin(file, signal);
  if (!read) return;
  box.replaceChildren(make("pre", { className: "mono" }, visible(read.text)));
  say(read.cut ? `The first ${size(MOST_BYTES)} of ${size(file.size)}` : size(file.size));
}

async function showTable(file, signal) {
  const read = await begin(file, signal);
  if (!read) return;
  const { table, note } = tableOf(read.text, file.name, read.cut);
  box.replaceChildren(table);
  say(note);
}

/** The begin of a file as text, or nothing, which is told, if it is none. */
async function begin(file, signal) {
  const response = await fetch(address(file.url), { headers: { Range: `bytes=0-${MOST_BYTES - 1}` }, cache: "no-store", signal });
  if (!response.ok) throw new Error(response.status === 404 ? "There is no such file any more." : await response.text());
  const bytes = new Uint8Array(await response.arrayBuffer());
  const text = decoded(bytes);
  if (text === null) say("This is neither text nor a picture that browsers show. Download it to open it.");
  else if (!text) say("The file is empty.");
  return text && { text, cut: response.status === 206 && bytes.length < file.size };
}

/** Bytes as text, which may end in the middle of a character; `null` if they are none. */
function decoded(bytes) {
  const isWide = bytes[0] === 0xff && bytes[1] === 0xfe;
  if (isWide) return new TextDecoder("utf-16le").decode(bytes, { stream: true });
  if (bytes.includes(0)) return null;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: true });
  } catch {
    // What tables from Windows are often written in.
    return new TextDecoder("windows-1252").decode(bytes);
  }
}

async function show(file, way) {
  loading?.abort();
  loading = new AbortController();
  const { signal } = loading;
  box.replaceChildren();
  say("");
  try {
    await way(file, signal);
  } catch (error) {
    if (!signal.aborted) say(`The file cannot be shown. ${error.message}`);
  }
}

/** Opens a file, with what can be done with it. */
export function openFile(file) {
  const all = waysOf(file);
  byId("file-title").textContent = visibleName(file.name);
  Object.assign(byId("download-file"), { href: address(file.url), download: file.name });
  byId("rename-file").onclick = () => askToRename(file);
  byId("delete-file").onclick = () => onDelete(file);
  ways.hidden = all.length < 2;
  const legend = ways.querySelector("legend");
  ways.replaceChildren(legend, ...all.map(([label, way], at) => make("label", {},
    make("input", { type: "radio", name: "preview-way", autocomplete: "off", checked: at === 0, onchange: () => show(file, way) }),
    make("span", {}, label))));
  openDialog(dialog);
  show(file, all[0][1]);
}

let onDelete = null;

/** Connects the dialog. `toDelete` is called with a file that is to be deleted. */
export function connectPreview(toDelete) {
  onDelete = toDelete;
  // What is in a frame goes on otherwise.
  dialog.addEventListener("close", () => {
    loading?.abort();
    box.replaceChildren();
  });
}
