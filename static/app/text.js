// Text for people: what cannot be seen made visible, sizes, times, and whose keys are meant.

/** Whether keyboards have Command where others have Control. */
export const isMac = navigator.platform.startsWith("Mac");

const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;
const DIRECTIONS = /[\u202a-\u202e\u2066-\u2069]/g;
const IN_NAMES = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;

const codePoint = (character) => `‹U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}›`;

/** Output without what steers terminals, and with marks that turn the direction of text around made visible. */
export function visible(text) {
  return text.replace(CONTROLS, picture).replace(DIRECTIONS, codePoint);
}

// Unicode has pictures of the first 32 characters.
const picture = (character) => character < " " ? String.fromCharCode(0x2400 + character.charCodeAt(0)) : codePoint(character);

/** A name in which nothing is invisible: what looks like another file has to look different. */
export const visibleName = (name) => name.replace(IN_NAMES, codePoint);

/** Bytes as people say them. */
export function size(bytes) {
  if (bytes < 1000) return `${bytes} ${bytes === 1 ? "byte" : "bytes"}`;
  const units = ["kB", "MB", "GB"];
  let value = bytes / 1000;
  let unit = 0;
  for (; value >= 999.5 && unit < units.length - 1; unit += 1) value /= 1000;
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

/** Milliseconds as people say them. */
export function duration(milliseconds) {
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  const seconds = milliseconds / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
}

/** A status of a run as the page says it everywhere: in the word that the server and its tools have for it. */
export function wordFor(status) {
  if (status === "ok") return "OK";
  const words = status.replaceAll("_", " ");
  return words[0].toUpperCase() + words.slice(1);
}
