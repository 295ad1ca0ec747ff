// Reads tables of text: values between commas, semicolons or tabs, in quotes where they have some of these themselves.

import { make } from "./dom.js";
import { visible } from "./text.js";

/** Rows and columns that are shown at most: browsers are slow with many cells. */
const MOST_ROWS = 200;
const MOST_COLUMNS = 40;
/** Characters that a cell has room for, about. */
const LONG = 40;

/** What stands between the values: in files by the name of .csv often no comma. */
function separator(text, name) {
  if (/\.(tsv|tab)$/i.test(name)) return "\t";
  const line = /^[^\r\n]*/.exec(text)[0].replace(/"[^"]*"/g, "");
  const count = (mark) => line.split(mark).length;
  return [",", ";", "\t", "|"].reduce((best, mark) => count(mark) > count(best) ? mark : best);
}

/** The rows of a text, `most` of them at most, and whether it has more. */
function parse(text, name, most) {
  const mark = separator(text, name);
  const rest = `[^${mark}\\r\\n]*`;
  // A value in quotes or without, and what ends it.
  const value = new RegExp(`(?:"([^"]*(?:""[^"]*)*)"?|(${rest}))${rest}([${mark}]|\\r\\n?|\\n|$)`, "y");
  const rows = [];
  let row = [];
  while (value.lastIndex < text.length && rows.length < most) {
    const [, quoted, plain, end] = value.exec(text);
    row.push(quoted?.replaceAll('""', '"') ?? plain);
    // After a mark at the very end there is an empty value.
    if (end === mark && value.lastIndex === text.length) row.push("");
    else if (end === mark) continue;
    if (row.length > 1 || row[0]) rows.push(row);
    row = [];
  }
  return { rows, hasMore: value.lastIndex < text.length };
}

const isNumber = (text) => text === "" || /^\s*[-+]?(\d[\d,.\s_]*|\.\d+)(e[-+]?\d+)?\s*%?\s*$/i.test(text);

const count = (number, word) => `${number.toLocaleString()} ${word}${number === 1 ? "" : "s"}`;

/** A table of a text, and what is to be said of it. A text that was `cut` ends in the middle of a row. */
export function tableOf(text, name, cut) {
  const { rows, hasMore } = parse(text, name, MOST_ROWS + 1);
  if (cut && !hasMore) rows.pop();
  const [head = [], ...body] = rows;
  const columns = Math.max(0, ...rows.map((row) => row.length));
  const places = Array.from({ length: Math.min(columns, MOST_COLUMNS) }, (_, at) => at);
  const numeric = places.map((at) => body.some((row) => row[at]) && body.every((row) => isNumber(row[at] ?? "")));
  const line = (row, tag, properties) => make("tr", {}, ...places.map((at) => {
    const value = row[at] ?? "";
    // What is too long for its cell is there as a whole.
    const title = value.length > LONG ? visible(value) : "";
    return make(tag, { className: numeric[at] ? "number" : "", title, ...properties }, visible(value));
  }));
  const table = make("table", {},
    make("thead", {}, line(head, "th", { scope: "col" })),
    make("tbody", {}, ...body.map((row) => line(row, "td", {}))));
  const height = `${cut || hasMore ? "The first " : ""}${count(body.length, "row")}`;
  const width = `${columns > places.length ? `the first ${places.length} of ` : ""}${count(columns, "column")}`;
  return { table, note: `${height}, ${width}` };
}
