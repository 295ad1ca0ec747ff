// What can be done with the files of the conversation: one renamed or deleted, all deleted or downloaded as an archive.

import { callTool, Refused, Unreachable } from "./api.js";
import { conversation, unlessHere } from "./conversation.js";
import { calledNow } from "./conversations.js";
import { byId, make, openDialog } from "./dom.js";
import { announce, notice } from "./notices.js";
import { ask } from "./question.js";
import { archive, deleteFile, renameFile } from "./rest.js";
import { visibleName } from "./text.js";
import { withToken } from "./token.js";

const renaming = byId("rename-dialog");
const newName = byId("new-name");
const mistake = byId("rename-error");
const all = byId("download-files");
/** The list of files: `showFiles` and `refresh`. */
let list = null;
/** What is to be renamed, and in which conversation. */
let wanted = null;

/** Deletes something and shows what is left, with the focus on the file `next`. `what` goes with `were`. */
async function remove(what, were, act, next) {
  const conversationId = conversation();
  try {
    await withToken((token) => act(token, conversationId));
    announce(`${what} ${were} deleted${unlessHere(conversationId)}.`);
  } catch (error) {
    const isUnknown = error instanceof Unreachable;
    notice("problem", `${what} ${isUnknown ? "may not have been" : `${were} not`} deleted${unlessHere(conversationId)}. ${error.message}`);
    if (isUnknown || error.code === "file_not_found") list.refresh();
    return;
  }
  if (conversationId === conversation()) await list.showFiles([], next);
}

/** Asks whether a file is to be deleted, after which the file `next` has its place. */
export function askToDelete(file, next) {
  const name = visibleName(file.name);
  const act = () => {
    byId("file-dialog").close();
    remove(name, "was", (token, conversationId) => deleteFile(token, conversationId, file.name), next);
  };
  ask({ title: "Delete the file?", text: `This deletes ${name}. It cannot be undone.`, label: "Delete", act });
}

function askToDeleteAll() {
  const act = () => remove("The files", "were", (token, conversationId) => callTool(token, "delete_conversation", { conversationId }));
  ask({ title: "Delete all files?", text: "This stops the conversation's programs and deletes its files. It cannot be undone.", label: "Delete all", act });
}

/** Asks for another name of a file. */
export function askToRename(file) {
  wanted = { file, conversationId: conversation() };
  mistake.textContent = "";
  newName.setAttribute("aria-invalid", "false");
  newName.value = file.name;
  openDialog(renaming);
  newName.focus();
  // What most people change is the name and not its ending, nor the folder.
  const begin = file.name.lastIndexOf("/") + 1;
  const end = file.name.lastIndexOf(".");
  newName.setSelectionRange(begin, end > begin ? end : file.name.length);
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
    renamed = await withToken((token) => renameFile(token, conversationId, file.name, filename));
  } catch (error) {
    mistake.textContent = error instanceof Refused ? error.message : `The file may not have been renamed. ${error.message}`;
    newName.setAttribute("aria-invalid", "true");
    newName.focus();
    if (error instanceof Unreachable) list.refresh();
    return;
  }
  renaming.close();
  byId("file-dialog").close();
  announce(`${visibleName(file.name)} is now ${visibleName(renamed.name)}.`);
  if (conversationId === conversation()) await list.showFiles([renamed.name]);
}

/** Downloads all files as one archive. Links are for single files, and the archive needs the token, so the page gets it. */
async function downloadAll() {
  if (all.ariaDisabled === "true") return;
  packing(true);
  const conversationId = conversation();
  try {
    const url = URL.createObjectURL(await withToken((token) => archive(token, conversationId)));
    make("a", { href: url, download: `${calledNow() || "files"}.zip` }).click();
    // Some browsers read it only after a while.
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
    announce("The archive is downloaded.");
  } catch (error) {
    notice("problem", `The files were not downloaded${unlessHere(conversationId)}. ${error.message}`, { label: "Try again", act: downloadAll });
  } finally {
    packing(false);
  }
}

function packing(yes) {
  all.setAttribute("aria-disabled", String(yes));
  all.textContent = yes ? "Packing…" : "Download all";
  if (yes) announce("Packing");
}

/** Connects the buttons. `of` is the list of files. */
export function connectFileActions(of) {
  list = of;
  byId("delete-files").onclick = askToDeleteAll;
  all.onclick = downloadAll;
  byId("rename-form").addEventListener("submit", (event) => {
    event.preventDefault();
    rename();
  });
}
