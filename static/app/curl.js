// The same call as a command for a shell.

import { endpoint, toolCall } from "./api.js";
import { byId, openDialog } from "./dom.js";
import { copy } from "./notices.js";

/** A word of a POSIX shell, whatever is in it. */
const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

/** The command for a request. The token is left to the shell's environment. */
export function command(request) {
  const message = JSON.stringify({ ...toolCall("run_code", request), id: 1 }, null, 2);
  return `curl -sS ${quoted(endpoint().href)} \\
  -H "Authorization: Bearer $MCP_API_TOKEN" \\
  -H 'Content-Type: application/json' \\
  -d ${quoted(message)}`;
}

/** Connects button and dialog. `request` gives what would be run now, if anything. */
export function connectCurl(request) {
  const text = byId("curl-command");
  const button = byId("copy-curl");
  byId("open-curl").onclick = () => {
    const wanted = request();
    if (!wanted) return;
    text.textContent = command(wanted);
    byId("curl-status").textContent = "";
    openDialog(byId("curl-dialog"));
    button.focus();
  };
  button.onclick = () => copy(text.textContent, button, text);
}
