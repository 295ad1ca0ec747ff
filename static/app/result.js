// What is shown of a run: its output and its pictures, which run they are of, and how they are looked at.

import { conversation } from "./conversation.js";
import { nameOf } from "./conversations.js";
import { byId } from "./dom.js";
import { showPictures } from "./files.js";
import { copy } from "./notices.js";
import { Output } from "./output.js";
import { browser } from "./store.js";
import { visibleName } from "./text.js";

const box = byId("output");
const nothing = byId("nothing-printed");
const whose = byId("whose");
const wrap = byId("wrap");
/** The conversation of the run that is shown, if one is. */
let shownOf = null;
/** Whether another run was asked for since, which has not begun. */
let isOld = false;

export const output = new Output(box);

/** A run of a conversation begins: what is shown from now on is its own. */
export function beginResult(conversationId) {
  output.clear();
  showPictures([]);
  byId("empty").hidden = true;
  nothing.hidden = true;
  shownOf = conversationId;
  markOld(false);
}

/** Says whether what is shown is of an earlier run than the one that was asked for. */
export function markOld(yes) {
  isOld = yes;
  showWhose();
}

/** Says of which run the result is, unless it is the last one of the conversation on the screen. */
export function showWhose() {
  const isElsewhere = shownOf !== null && shownOf !== conversation();
  const run = isOld ? "the run before" : "a run";
  whose.hidden = shownOf === null || !isOld && !isElsewhere;
  whose.textContent = `Below is the result of ${run}${isElsewhere ? ` in ${visibleName(nameOf(shownOf) || shownOf)}` : ""}.`;
}

/** Shows the pictures of a run that has ended, and says if it printed nothing. Gives what was said. */
export function endResult({ files }) {
  nothing.hidden = !output.isEmpty;
  showPictures(files);
  return nothing.hidden ? null : nothing.textContent;
}

/** Connects what is above the output. */
export function connectResult() {
  byId("copy-output").onclick = ({ currentTarget }) => copy(output.text(), currentTarget, box);
  byId("streams").onchange = ({ target }) => { box.dataset.show = target.value; };
  wrap.checked = browser.kept("wrap", false);
  const show = () => box.classList.toggle("wrapped", wrap.checked);
  wrap.onchange = () => {
    browser.keep("wrap", wrap.checked);
    show();
  };
  show();
}
