// Calls tools of the server at ./mcp, and follows what they tell meanwhile.

import { readEvents } from "./events.js";

const BROKEN = "The connection to the server was lost.";

/** Where output with its streams is agreed on; see src/mcp/live/pieces.rs. */
const OUTPUT = "mcp-code-sandbox/output";
/** Where a run is named that is to go on without its call; see src/mcp/tools/run_code.rs. */
const RUN = "mcp-code-sandbox/run";

/** What a request is sent with for a token. Without one, something before the server says who calls. */
export const authorization = (token) => token ? { Authorization: `Bearer ${token}` } : {};

/** The token is missing or wrong. */
export class Unauthorized extends Error {}

/** The server does not answer, or stopped in the middle of an answer. With `isUnsent` there was no connection to it. */
export class Unreachable extends Error {}

/** The server answered that it will not. `code` is one of docs/errors.md. */
export class Refused extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/** Too many requests for now, says the server or a proxy before it. `seconds` is how long to wait, if that was said. */
export class TooMany extends Error {
  constructor(seconds) {
    super(`The server is getting too many requests. Wait ${seconds ? `${seconds} s` : "a moment"}, then try again.`);
    this.seconds = seconds;
  }
}

const PASSING = ["busy", "session_busy", "install_busy"];

/** Whether it may help to do the same again. */
export const isPassing = (error) => error instanceof Unreachable || error instanceof TooMany || PASSING.includes(error.code);

let lastId = 0;

/** What a request for a tool looks like. */
export function toolCall(name, args) {
  lastId += 1;
  return { jsonrpc: "2.0", id: lastId, method: "tools/call", params: { name, arguments: args } };
}

/** Where the server takes calls: beside the page, also below a path of a proxy. */
export const endpoint = () => new URL("mcp", document.baseURI);

/**
 * Calls a tool and gives its result. With `onOutput` it tells what the program prints, from the byte `offset` on. A run
 * that is named by `runId` goes on whatever becomes of the call.
 */
export async function callTool(token, name, args, { onOutput, offset = 0, runId, signal } = {}) {
  const message = toolCall(name, args);
  if (onOutput) message.params._meta = { progressToken: message.id, [OUTPUT]: { offset }, [RUN]: runId };
  let response;
  try {
    response = await fetch(endpoint(), {
      method: "POST",
      headers: {
        ...authorization(token),
        "Content-Type": "application/json",
        Accept: onOutput ? "application/json, text/event-stream" : "application/json",
      },
      body: JSON.stringify(message),
      cache: "no-store",
      signal,
    });
  } catch (error) {
    throw Object.assign(lost(error, "The server does not answer."), { isUnsent: true });
  }
  return result(await answer(response, message.id, onOutput));
}

async function answer(response, id, onOutput) {
  if (!response.headers.get("content-type")?.startsWith("text/event-stream")) return body(response.status, await text(response), response.headers.get("retry-after"));
  try {
    for await (const message of readEvents(response.body)) {
      if (message.id === id) return message;
      const output = message.params?._meta?.[OUTPUT];
      if (output) onOutput?.(output);
    }
  } catch (error) {
    throw lost(error, BROKEN);
  }
  throw new Unreachable(BROKEN);
}

async function text(response) {
  try {
    return await response.text();
  } catch (error) {
    throw lost(error, BROKEN);
  }
}

/** What to tell of a call without an answer: nothing of the connection if somebody has ended the call. */
const lost = (error, message) => error.name === "AbortError" ? error : new Unreachable(message, { cause: error });

/** The message in the body of an answer that is no event stream. */
export function body(status, content, retryAfter) {
  // Proxies say these in words of their own.
  if (status === 401) throw new Unauthorized(object(content)?.error?.message ?? "The token is missing or wrong.");
  if (status === 429) throw new TooMany(Number(retryAfter) || 0);
  // Without one, it is none of the server's own.
  const message = object(content);
  const failure = message?.error;
  if (typeof failure?.code === "string") throw new Refused(failure.code, failure.message);
  if (isOfProxy(status)) throw new Unreachable(`The server does not answer (${status}).`);
  if (typeof failure?.code === "number") throw new Refused("protocol", failure.message);
  // Others refuse in JSON too.
  const isSuccess = status === 200 || status === 201;
  if (!isSuccess || !message) {
    throw new Refused("no_json", `The server gave an unexpected answer (${status}).`);
  }
  return message;
}

/** What an answer without success says, as an error. */
export function failed(...answer) {
  try {
    body(...answer);
  } catch (error) {
    return error;
  }
  return new Refused("no_json", "The server gave an unexpected answer.");
}

/** What proxies say while the server behind them is gone; those above 520 are Cloudflare's. */
const isOfProxy = (status) => status >= 502 && status <= 504 || status >= 520 && status <= 530;

/** The result of a tool from the message that answers. */
export function result(message) {
  if (message.error) throw new Refused("protocol", message.error.message);
  const { structuredContent, content, isError } = message.result ?? {};
  // An operator can have the object left out; the first text is the same.
  const answer = structuredContent ?? object(content?.[0]?.text);
  // Something between may have changed it.
  if (!answer) throw new Refused("protocol", "The server gave an answer that this page does not understand.");
  if (isError) throw new Refused(answer.code, answer.message);
  return answer;
}

/** The object that a text is the JSON of, if it is. */
function object(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
