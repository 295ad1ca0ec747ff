// The conversations of this browser: those that were used in it, with the names that somebody gave them.

import { conversation, goTo } from "./conversation.js";
import { byId, icon, keepFocus, make, openDialog } from "./dom.js";
import { announce } from "./notices.js";
import { ask } from "./question.js";
import { browser } from "./store.js";
import { visibleName } from "./text.js";
import { showInTitle } from "./title.js";

/** Those that were used last are kept. */
const MOST = 200;
const dialog = byId("conversations-dialog");
const field = byId("conversation-name");

/** Each with its `id`, its `name` if it has one, and when it was last used, `at`; the latest first. */
const kept = () => browser.kept("conversations", []);
const keep = (list) => browser.keep("conversations", list.slice(0, MOST));

/** The name of a conversation, or an empty text. */
export const nameOf = (id) => kept().find((one) => one.id === id)?.name ?? "";

/** The name of the one on the screen. */
export const calledNow = () => nameOf(conversation());

/** A conversation was used. */
export function noteConversation(id, name = nameOf(id)) {
  keep([{ id, name, at: Date.now() }, ...kept().filter((one) => one.id !== id)]);
}

function showName() {
  const name = visibleName(calledNow());
  byId("conversation-called").textContent = name || "All";
  showInTitle({ name });
}

function show() {
  const list = kept();
  byId("no-conversations").hidden = list.length > 0;
  byId("forget-conversations").hidden = list.length === 0;
  byId("conversation-list").replaceChildren(...list.map((one) => make("li", {}, entry(one), forget(one))));
}

function entry({ id, name, at }) {
  const isHere = id === conversation();
  const when = new Date(at).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
  const onclick = () => {
    dialog.close();
    goTo(id);
  };
  const button = make("button", { type: "button", className: "history-entry", onclick },
    make("bdi", { className: "conversation-title" }, visibleName(name) || "No name"),
    make("span", { className: "facts" }, isHere ? `${when} · on the screen` : when),
    make("bdi", { className: "facts mono" }, visibleName(id)));
  if (isHere) button.ariaCurrent = "true";
  return button;
}

function forget({ id, name }) {
  const what = visibleName(name || id);
  const onclick = () => keepFocus(dialog, field, () => {
    keep(kept().filter((one) => one.id !== id));
    changed();
    announce(`${what} is forgotten.`);
  });
  return make("button", { type: "button", className: "button quiet icon-only", ariaLabel: `Forget ${what}`, title: "Forget", onclick }, icon("close"));
}

/** The list was changed here. */
function changed() {
  field.value = calledNow();
  showName();
  show();
}

function askToForgetAll() {
  const text = "This removes them and their names from this browser. Their files stay on the server until they expire, but only their ids lead there.";
  const act = () => keepFocus(dialog, field, () => {
    keep([]);
    changed();
  });
  ask({ title: "Forget all conversations?", text, label: "Forget all", act });
}

/** Connects button and drawer. */
export function connectConversations() {
  byId("open-conversations").onclick = () => {
    changed();
    openDialog(dialog);
  };
  field.oninput = () => {
    noteConversation(conversation(), field.value.trim());
    showName();
    show();
  };
  byId("forget-conversations").onclick = askToForgetAll;
  byId("conversation").addEventListener("conversation", showName);
  showName();
}
