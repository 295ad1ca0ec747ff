// What the page itself can do about a hint of the server: a button beside it.

import { canInstall, installFor } from "./packages.js";
import { openInput, switchOn } from "./options.js";

const INSTALL = "with install_packages";
/** A package is named before or after what to do about it. */
const NAMED_BEFORE = new RegExp(`(\\S+) is not installed[:,] add (?:it|the package that has it) ${INSTALL}`);
const NAMED_AFTER = new RegExp(`add (\\S+) ${INSTALL}`);

/** The button for a hint about a run, `label` and `act`, if there is one. `run` runs the program again. */
export function adviceFor(hint, { conversationId, language }, run) {
  const name = (hint.match(NAMED_BEFORE) ?? hint.match(NAMED_AFTER))?.[1];
  if (name) {
    const again = { label: "Run again", act: run };
    return canInstall(language) && { label: `Install ${name}`, act: () => installFor({ conversationId, language, packages: [name] }, again) };
  }
  for (const [option, named] of [["network", "the network"], ["stateful", "Stateful"]]) {
    if (!hint.includes(`${option}: true`)) continue;
    const on = switchOn(option);
    return on && { label: `Run with ${named}`, act: () => { on(); run(); } };
  }
  return hint.includes("the argument stdin") && { label: "Give it input", act: openInput };
}
