// What the page itself can do about how a run ended: a button beside the hint.

import { canInstall, installFor } from "./packages.js";
import { openInput, switchOn } from "./options.js";

/** The button for what helps after a run, `label` and `act`, if there is one. `run` runs the program again. */
export function adviceFor(remedy, { conversationId, language }, run) {
  switch (remedy?.kind) {
    case "install": {
      const { package: name } = remedy;
      const again = { label: "Run again", act: run };
      return canInstall(language) && { label: `Install ${name}`, act: () => installFor({ conversationId, language, packages: [name] }, again) };
    }
    case "network":
      return runWith("network", "the network", run);
    case "stateful":
      return runWith("stateful", "Stateful", run);
    case "stdin":
      return { label: "Give it input", act: openInput };
    default:
      return undefined;
  }
}

function runWith(option, named, run) {
  const on = switchOn(option);
  return on && { label: `Run with ${named}`, act: () => { on(); run(); } };
}
