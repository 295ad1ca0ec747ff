// The same call as a command for a shell.

import { endpoint, toolCall } from "./api.js";
import { byId, make, openDialog } from "./dom.js";
import { copy } from "./notices.js";

/** A word of a POSIX shell, whatever is in it. */
const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

const isShellName = (name) => /^[A-Za-z_]\w*$/.test(name);

/** The command for a request. The token and values of the environment are left to the shell's own. */
export function command({ environment = {}, ...request }) {
  // What nobody can have typed stands for them, until the text is quoted.
  const mark = crypto.getRandomValues(new Uint32Array(4)).join("-");
  const names = Object.keys(environment).filter(isShellName);
  const stands = Object.fromEntries(names.map((name) => [name, mark + name]));
  const call = toolCall("run_code", { ...request, ...(names.length && { environment: stands }) });
  const message = quoted(JSON.stringify({ ...call, id: 1 }, null, 2));
  // Out of one kind of quotes and into the other.
  const data = names.reduce((text, name) => text.replace(`"${mark}${name}"`, () => `"'"$${name}"'"`), message);
  return `curl -sS ${quoted(endpoint().href)} \\
  -H "Authorization: Bearer $MCP_API_TOKEN" \\
  -H 'Content-Type: application/json' \\
  -d ${data}`;
}

/** Says which variables of the shell the command takes. */
function tellVariables(environment) {
  const names = ["MCP_API_TOKEN", ...Object.keys(environment).filter(isShellName)];
  const words = names.flatMap((name, at) => [at === 0 ? "" : at < names.length - 1 ? ", " : " and ", make("code", {}, name)]);
  byId("curl-variables").replaceChildren(...words);
  const isPlain = (value) => JSON.stringify(value) === `"${value}"`;
  byId("curl-escapes").hidden = Object.values(environment).every(isPlain);
}

/** Connects button and dialog. `request` gives what would be run now, if anything. */
export function connectCurl(request) {
  const text = byId("curl-command");
  const button = byId("copy-curl");
  byId("open-curl").onclick = () => {
    const wanted = request();
    if (!wanted) return;
    text.textContent = command(wanted);
    tellVariables(wanted.environment ?? {});
    byId("curl-status").textContent = "";
    openDialog(byId("curl-dialog"));
    button.focus();
  };
  button.onclick = () => copy(text.textContent, button, text);
}
