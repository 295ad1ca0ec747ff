// Uploads by button and by dropping files on the page, one after the other, with their progress.

import { body, callTool, isPassing, Unreachable } from "./api.js";
import { conversation, goToTyped, unlessHere } from "./conversation.js";
import { noteConversation } from "./conversations.js";
import { byId, make } from "./dom.js";
import { refresh, showFiles } from "./files.js";
import { announce, notice } from "./notices.js";
import { addressOfFile, isPartOfPath } from "./rest.js";
import { size, visibleName } from "./text.js";
import { withToken } from "./token.js";

const input = byId("upload-input");
let most = Infinity;
let queue = Promise.resolve();

/** The largest file that the server takes. */
export const setMostBytes = (bytes) => { most = bytes; };

/** Uploads files to the conversation whose id is in the field: who drops a file does not leave the field before. */
function take(files) {
  if (goToTyped()) enqueue(files);
}

// Where files go is decided now, whatever conversation is on the screen when their turn comes.
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
    const act = isPartOfPath(conversationId)
      ? (token) => send(token, addressOfFile(conversationId, file.name), file, bar)
      : (token) => hand(token, conversationId, file);
    await withToken(act);
    noteConversation(conversationId);
    announce(`${name} was uploaded${unlessHere(conversationId)}.`);
    if (conversationId === conversation()) showFiles([file.name]);
  } catch (error) {
    const again = isPassing(error) && { label: "Try again", act: () => enqueue([file], conversationId) };
    const isUnknown = error instanceof Unreachable;
    notice("problem", `${name} ${isUnknown ? "may not have been" : "was not"} uploaded${unlessHere(conversationId)}. ${error.message}`, again);
    if (isUnknown) refresh();
  }
  item.remove();
}

/** Folders look like files until somebody reads them. */
async function assertReadable(file) {
  try {
    await file.slice(0, 1).arrayBuffer();
  } catch (error) {
    throw new Error("The browser cannot read it. To upload a folder, pack it into one file first.", { cause: error });
  }
}

/** Sends a file as it is, which the browser reads while it goes. Only XMLHttpRequest tells how much of it has gone. */
function send(token, url, file, bar) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.upload.onprogress = ({ loaded }) => { bar.value = loaded; };
    request.onerror = () => reject(new Unreachable("The server does not answer."));
    request.onload = () => {
      try {
        resolve(body(request.status, request.responseText, request.getResponseHeader("Retry-After")));
      } catch (error) {
        reject(error);
      }
    };
    request.open("PUT", url);
    if (token) request.setRequestHeader("Authorization", `Bearer ${token}`);
    request.send(file);
  });
}

/** Sends a file in a call, which takes several times its size in memory. */
async function hand(token, conversationId, file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let binary = "";
  // A function takes so many arguments and not all.
  for (let at = 0; at < bytes.length; at += 0x8000) binary += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  await callTool(token, "upload_file", { conversationId, filename: file.name, content: btoa(binary) });
}

/** Connects the button and the page as a place to drop files on. */
export function connectUpload() {
  byId("upload").onclick = () => {
    if (goToTyped()) input.click();
  };
  input.onchange = () => {
    take(input.files);
    input.value = "";
  };
  const brings = (event) => event.dataTransfer?.types.includes("Files");
  const show = (on) => document.body.classList.toggle("dropping", on);
  addEventListener("dragover", (event) => {
    if (!brings(event)) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = "copy";
    show(true);
  });
  addEventListener("dragleave", (event) => event.relatedTarget === null && show(false));
  // Before the editor takes it for text.
  addEventListener("drop", (event) => {
    if (!brings(event)) return;
    event.preventDefault();
    event.stopPropagation();
    show(false);
    take(event.dataTransfer.files);
  }, true);
}
