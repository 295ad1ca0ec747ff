// Reads what somebody typed or pasted as a list of packages: names with versions, between spaces, commas or lines.

/** What is often pasted along with the names. */
const COMMAND = /^\s*[!%$]?\s*(?:python3?\s+-m\s+)?(?:uv\s+)?(?:pip3?|npm|bun|pnpm|yarn)\s+(?:install|add|i)\s/;
/** A comment to the end of its line, as in requirements.txt. */
const COMMENT = /(?:^|\s)#.*$/;
/** Whatever has no space or comma in it, but for what is between brackets. */
const WORD = /(?:\[[^\]]*\]|[^\s,])+/g;
const BEGINS_WITH_OPERATOR = /^(?:[<>=!~^]|@$)/;
const ENDS_WITH_OPERATOR = /[<>=!~^@]$/;

/** The packages in a text, each as the server takes it. Whether they are right is for the server to say. */
export function requirements(text, language) {
  const list = [];
  for (const line of text.split("\n")) {
    let begun = false;
    for (const [word] of line.replace(COMMENT, "").replace(COMMAND, "").matchAll(WORD)) {
      const last = begun ? list.at(-1) : "";
      // "six >= 1.16, < 2" is one package.
      if (ENDS_WITH_OPERATOR.test(last)) list[list.length - 1] += word;
      else if (last && BEGINS_WITH_OPERATOR.test(word)) list[list.length - 1] += joint(last, word, language) + word;
      else list.push(word);
      begun = true;
    }
  }
  return list;
}

/** What is between a package and a condition that follows it. */
function joint(before, word, language) {
  if (word === "@") return "";
  if (language === "typescript") return before.lastIndexOf("@") > 0 ? " " : "@";
  return /[<>=!~]/.test(before) ? "," : "";
}
