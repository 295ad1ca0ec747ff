// The files of the conversation: list, thumbnails, downloads, deletion.

import { callTool } from "./api.js";
import { conversation } from "./conversation.js";
import { byId, icon, make, openDialog } from "./dom.js";
import { notice } from "./notices.js";
import { size, visibleName } from "./text.js";
import { withToken } from "./token.js";

const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/** Larger pictures are not loaded for a thumbnail. */
const MOST_FOR_THUMBNAIL = 8e6;
const list = byId("file-list");

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

/** Asks for the files and shows them. Names in `changed` are marked as new. */
export async function refreshFiles(changed = []) {
  const asked = conversation();
  const { files, truncated } = await withToken((token) => callTool(token, "list_files", { conversationId: asked }));
  // Another conversation may have begun meanwhile.
  if (asked === conversation()) show(files, truncated, new Set(changed));
}

function show(files, truncated, changed) {
  const isNew = ({ name }) => changed.has(name);
  const sorted = [...files.filter(isNew), ...files.filter((file) => !isNew(file))];
  const entries = sorted.map((file) => entry(file, isNew(file)));
  list.replaceChildren(...entries);
  if (truncated) list.append(make("li", { className: "note" }, truncated));
  byId("files-count").textContent = files.length ? String(files.length) : "";
  byId("no-files").hidden = files.length > 0;
  byId("delete-files").hidden = files.length === 0;
}

function entry(file, isNew) {
  const name = visibleName(file.name);
  const face = isPicture(file)
    ? make("button", { type: "button", className: "thumbnail", ariaLabel: `Show ${name}`, onclick: () => openPicture(file) },
        make("img", { src: fresh(file), alt: "", loading: "lazy", decoding: "async", width: 40, height: 40 }))
    : make("span", { className: "thumbnail" }, icon("file"));
  const download = make("a", {
    className: "button quiet icon-only", href: address(file.url), download: file.name, ariaLabel: `Download ${name}`,
  }, icon("download"));
  return make("li", {}, face,
    make("bdi", { className: "file-name mono", title: name }, name),
    ...(isNew ? [make("span", { className: "badge" }, "new")] : []),
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

function openPicture(file) {
  byId("picture-title").textContent = visibleName(file.name);
  byId("picture").src = fresh(file);
  Object.assign(byId("picture-download"), { href: address(file.url), download: file.name });
  openDialog(byId("picture-dialog"));
}

/** Connects the deletion. */
export function connectFiles() {
  const dialog = byId("delete-dialog");
  byId("delete-files").onclick = () => openDialog(dialog);
  byId("confirm-delete").onclick = async () => {
    dialog.close();
    try {
      await withToken((token) => callTool(token, "delete_conversation", { conversationId: conversation() }));
      await refreshFiles();
    } catch (error) {
      notice("problem", `The files were not deleted. ${error.message}`);
    }
  };
}
