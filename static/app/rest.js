// What only the REST interface has: who one is, single files of a conversation as they are, and all of them in one archive.

import { authorization, body, failed, Unreachable } from "./api.js";

/** Whether an id can be one part of a path: browsers resolve dots and proxies split at slashes, encoded or not. */
export const isPartOfPath = (id) => !/^\.\.?$|\//.test(id);

/** Where something of a conversation is: beside the page, as all calls go. */
function address(conversationId, ...rest) {
  const path = [conversationId, ...rest].map(encodeURIComponent);
  path.splice(1, 0, rest.length ? "files" : "archive");
  return new URL(`api/v1/conversations/${path.join("/")}`, document.baseURI);
}

/** Where a file of a conversation is put, read, renamed and deleted. */
export const addressOfFile = (conversationId, name) => address(conversationId, name);

async function ask(token, method, url, fields) {
  const headers = { ...authorization(token), ...(fields && { "Content-Type": "application/json" }) };
  try {
    return await fetch(url, { method, headers, body: fields && JSON.stringify(fields), cache: "no-store" });
  } catch (error) {
    throw new Unreachable("The server does not answer.", { cause: error });
  }
}

/** Throws what an answer without success says. */
async function assertDone(response) {
  if (!response.ok) throw failed(response.status, await response.text(), response.headers.get("Retry-After"));
}

function assertPartOfPath(id) {
  if (!isPartOfPath(id)) throw new Error("The server can do this only where the conversation's id has no slash and is more than dots.");
}

/** Whom the server takes the holder of a token for. */
export async function me(token) {
  const response = await ask(token, "GET", new URL("api/v1/me", document.baseURI));
  return body(response.status, await response.text(), response.headers.get("Retry-After"));
}

/** Deletes one file. */
export async function deleteFile(token, conversationId, name) {
  assertPartOfPath(conversationId);
  await assertDone(await ask(token, "DELETE", addressOfFile(conversationId, name)));
}

/** Gives a file another name, and returns the file. */
export async function renameFile(token, conversationId, name, filename) {
  assertPartOfPath(conversationId);
  const response = await ask(token, "PATCH", addressOfFile(conversationId, name), { filename });
  return body(response.status, await response.text(), response.headers.get("Retry-After")).file;
}

/** All files of a conversation in one archive. */
export async function archive(token, conversationId) {
  assertPartOfPath(conversationId);
  const response = await ask(token, "GET", address(conversationId));
  await assertDone(response);
  try {
    return await response.blob();
  } catch (error) {
    // Also when a file grew meanwhile, or the reader was too slow.
    throw new Unreachable("The archive broke off.", { cause: error });
  }
}
