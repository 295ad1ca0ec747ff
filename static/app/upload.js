// Uploads by button and by dropping files on the page, one after the other, with their progress.

import { body, endpoint, isPassing, result, toolCall, Unreachable } from "./api.js";
import { conversation, unlessHere } from "./conversation.js";
import { byId, make } from "./dom.js";
import { showFiles } from "./files.js";
import { announce, notice } from "./notices.js";
import { size, visibleName } from "./text.js";
import { withToken } from "./token.js";

const input = byId("upload-input");
let most = Infinity;
let queue = Promise.resolve();

/** The largest file that the server takes. */
export const setMostBytes = (bytes) => { most = bytes; };

// Where files go is decided now, whatever conversation is on the screen when their turn comes.
function enqueue(files, into = conversation()) {
  for (const file of files) queue = queue.then(() => upload(file, into));
}

async function upload(file, conversationId) {
  const name = visibleName(file.name);
  const bar = make("progress", { max: 1, value: 0, ariaLabel: `Upload of ${name}` });
  const item = make("li", {}, make("bdi", { className: "file-name mono" }, name), bar, make("span", { className: "file-size" }, size(file.size)));
  byId("uploads").append(item);
  try {
    if (file.size > most) throw new Error(`It has ${size(file.size)}, and the server takes ${size(most)} at most.`);
    const content = await base64(file);
    const message = toolCall("upload_file", { conversationId, filename: file.name, content });
    await withToken((token) => send(token, JSON.stringify(message), (part) => { bar.value = part; }));
    announce(`${name} was uploaded${unlessHere(conversationId)}.`);
    if (conversationId === conversation()) showFiles([file.name]);
  } catch (error) {
    const again = isPassing(error) && { label: "Try again", act: () => enqueue([file], conversationId) };
    notice("problem", `${name} was not uploaded${unlessHere(conversationId)}. ${error.message}`, again);
  }
  item.remove();
}

/** The content of a file in base64, encoded by the browser itself. */
function base64(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(new Error("The browser cannot read it. A folder has to be packed first."));
    reader.readAsDataURL(file);
  });
}

/** Posts a message. Only XMLHttpRequest tells how much of it has gone. */
function send(token, message, onProgress) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.upload.onprogress = ({ loaded, total }) => onProgress(loaded / total);
    request.onerror = () => reject(new Unreachable("The server does not answer."));
    request.onload = () => {
      try {
        resolve(result(body(request.status, request.responseText, request.getResponseHeader("Retry-After"))));
      } catch (error) {
        reject(error);
      }
    };
    request.open("POST", endpoint());
    request.setRequestHeader("Authorization", `Bearer ${token}`);
    request.setRequestHeader("Content-Type", "application/json");
    request.send(message);
  });
}

/** Connects the button and the page as a place to drop files on. */
export function connectUpload() {
  byId("upload").onclick = () => input.click();
  input.onchange = () => {
    enqueue(input.files);
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
    enqueue(event.dataTransfer.files);
  }, true);
}
