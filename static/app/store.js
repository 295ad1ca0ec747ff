// What this browser keeps of the page: never the token, never values of environment variables.

/** A kept value, or the given one where there is none or it cannot be read. */
export function kept(name, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(`mcp-code-sandbox-${name}`)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

/** Keeps a value. A browser without room, or one that keeps nothing, is no reason to fail. */
export function keep(name, value) {
  try {
    localStorage.setItem(`mcp-code-sandbox-${name}`, JSON.stringify(value));
  } catch {
    // As if it had been cleared.
  }
}
