// What the browser keeps of the page. Only its tab ever has values of environment variables, and the token too, unless
// somebody wants the browser to keep it.

const nameOf = (name) => `mcp-code-sandbox-${name}`;

/** What is kept in one of the browser's storages. What it has no room for, or refuses, lasts as long as the page. */
class Store {
  #storage;
  #refused = new Map();

  /** `storage` gives it: where cookies are blocked, browsers refuse to name it. */
  constructor(storage) {
    this.#storage = storage;
  }

  /** A kept value, or the given one where there is none or it cannot be read. */
  kept(name, otherwise = null) {
    try {
      return JSON.parse(this.#refused.get(name) ?? this.#storage().getItem(nameOf(name))) ?? otherwise;
    } catch {
      return otherwise;
    }
  }

  /** Keeps a value in place of another. Nothing, `null`, is one too. */
  keep(name, value) {
    const text = JSON.stringify(value);
    this.#refused.delete(name);
    try {
      this.#storage().setItem(nameOf(name), text);
    } catch {
      this.#refused.set(name, text);
    }
  }
}

/** What all tabs have in common, until somebody clears it. */
export const browser = new Store(() => localStorage);

/** What one tab has, until it is closed. */
export const tab = new Store(() => sessionStorage);

/** A value of this tab, or for a new tab the one that was kept last in any. */
export const keptHere = (name) => tab.kept(name) ?? browser.kept(name);

/** Keeps a value for this tab, and for the next new one. */
export function keepHere(name, value) {
  tab.keep(name, value);
  browser.keep(name, value);
}
