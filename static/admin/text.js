// Times, sizes and keys as the operator reads them.

import { make } from "../app/dom.js";
import { duration, size, visible } from "../app/text.js";

/** A time of the server in the reader's own zone, with the whole of it for whoever points at it. */
export function time(text) {
  if (!text) return "";
  const date = new Date(text);
  const isToday = date.toDateString() === new Date().toDateString();
  return { text: isToday ? date.toLocaleTimeString() : date.toLocaleString(), title: text };
}

/** Bytes; nothing where they are not known. */
export const bytes = (count) => count === null || count === undefined ? "" : size(count);

/** Milliseconds; nothing where they are not known. */
export const span = (milliseconds) => milliseconds === null || milliseconds === undefined ? "" : duration(milliseconds);

/** A link to a view. */
export const link = (text, view, label) => make("a", { href: `#${view}`, ...(label && { "aria-label": label }) }, visible(text));

/** The link to a conversation, by as much of its key as tells it from others. */
export const conversationLink = (key) => link(key.slice(0, 12), `conversation/${key}`, `Conversation ${key.slice(0, 12)}`);
