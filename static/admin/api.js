// Asks the server about itself, as its operator; see docs/admin.md.

import { authorization, body, Unauthorized, Unreachable } from "../app/api.js";
import { dropToken, token } from "./token.js";

/** Asks, with whatever token it takes until one is taken, and gives the answer. */
export async function ask(path, { method = "GET", params = {} } = {}) {
  const url = new URL(`admin/v1/${path}`, document.baseURI);
  for (const [name, value] of Object.entries(params)) {
    if (value !== "" && value !== null && value !== undefined) url.searchParams.set(name, value);
  }
  for (;;) {
    const given = await token();
    try {
      return await once(method, url, given);
    } catch (error) {
      if (!(error instanceof Unauthorized)) throw error;
      dropToken(given);
    }
  }
}

async function once(method, url, given) {
  let response;
  try {
    response = await fetch(url, { method, headers: authorization(given), cache: "no-store" });
    return body(response.status, await response.text(), response.headers.get("retry-after"));
  } catch (error) {
    // Of a fetch, and of an answer that broke off.
    if (error instanceof TypeError) throw new Unreachable("The server does not answer.", { cause: error });
    throw error;
  }
}
