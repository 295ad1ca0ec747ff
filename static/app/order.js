// Which files are shown, and in which order.

import { visibleName } from "./text.js";

const byName = new Intl.Collator([], { numeric: true, sensitivity: "base" });
const compareNames = (one, other) => byName.compare(one.name, other.name);
/** What a name ends with, or nothing. */
const ending = ({ name }) => /[^/]\.([^./]+)$/.exec(name)?.[1] ?? "";

const ORDERS = {
  name: compareNames,
  size: (one, other) => other.size - one.size || compareNames(one, other),
  type: (one, other) => byName.compare(ending(one), ending(other)) || compareNames(one, other),
};

/** The files whose names have all words of `filter`, ordered. Those that are new come first unless something else is asked for. */
export function arranged(files, { order, filter, isNew }) {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const found = files.filter(({ name }) => words.every((word) => visibleName(name).toLowerCase().includes(word)));
  if (Object.hasOwn(ORDERS, order)) return found.sort(ORDERS[order]);
  return [...found.filter(isNew), ...found.filter((file) => !isNew(file))];
}

/** Bytes of all of them. */
export const total = (files) => files.reduce((sum, file) => sum + file.size, 0);
