// Tables whose rows stay where they are while what is in them changes, so that nobody loses their place.

import { byId, make } from "../app/dom.js";
import { visible } from "../app/text.js";

export class Rows {
  #body;
  #empty;
  #keyOf;
  #cells;
  #rows = new Map();

  /** The table with an id. `cells` gives what is in the cells of an entry: texts, elements, or `number(text)`. */
  constructor(id, keyOf, cells) {
    this.#body = byId(id).tBodies[0];
    this.#empty = byId(`no-${id}`);
    this.#keyOf = keyOf;
    this.#cells = cells;
  }

  /** Shows these entries in this order, and no others. */
  show(entries) {
    const before = this.#rows;
    this.#rows = new Map();
    const rows = entries.map((entry) => {
      const key = this.#keyOf(entry);
      const row = before.get(key) ?? make("tr");
      this.#rows.set(key, row);
      fill(row, this.#cells(entry));
      return row;
    });
    place(this.#body, rows);
    this.#empty.hidden = rows.length > 0;
  }
}

/** Moves as few rows as it takes: one that is moved loses the focus. */
function place(body, rows) {
  const wanted = new Set(rows);
  for (const row of [...body.rows]) if (!wanted.has(row)) row.remove();
  rows.forEach((row, index) => {
    if (body.rows[index] !== row) body.insertBefore(row, body.rows[index] ?? null);
  });
}

function fill(row, cells) {
  cells.forEach((cell, index) => {
    const place = row.cells[index] ?? row.appendChild(make("td"));
    const { text, className = "", title = "" } = typeof cell === "object" && !(cell instanceof Node) && cell !== null ? cell : { text: cell };
    if (place.className !== className) place.className = className;
    if (place.title !== title) place.title = title;
    if (text instanceof Node) keepNode(place, text);
    else if (place.textContent !== (text ?? "")) place.textContent = text ?? "";
  });
}

/** A button or a link that says the same stays, with the focus that it may have: so what it does is not in itself. */
function keepNode(place, node) {
  const now = place.firstElementChild;
  if (!now?.isEqualNode(node)) place.replaceChildren(node);
}

/** A figure. */
export const number = (text) => ({ text, className: "number" });

/** A name from outside. */
export const name = (text) => visible(text ?? "");

/** Whether an entry has a text in it, for a search. */
export const has = (entry, search) => JSON.stringify(entry).toLowerCase().includes(search.trim().toLowerCase());
