// Shows what a program prints, as it comes: streams told apart, colours, progress bars, and however much it is.
//
// Text waits in a queue and is shown in small portions between two frames, so that a flood freezes nothing. It stands
// in blocks of some kilobytes, which the browser leaves out as long as they are not on the screen.

import { AnsiReader } from "./ansi.js";
import { make } from "./dom.js";
import { visible } from "./text.js";

/** Characters of one block, about. */
const BLOCK = 8192;
/** Characters shown at most; the browser's memory has an end too. */
const MOST = 4 << 20;
/** Milliseconds of one frame that showing may take. */
const SHARE = 8;

export class Output {
  /** Whether nothing was printed. */
  isEmpty = true;
  #box;
  #follows;
  #queue = [];
  #readers;
  #block;
  /** Characters in the last block and in all. */
  #size;
  #shown;
  #lineEnded;
  #waiting = null;
  /** Whether the line is written anew by what comes next, as progress bars do. */
  #again;

  constructor(box) {
    this.#box = box;
    const screen = box.parentElement;
    // Whoever has scrolled up stays there; others follow the end, also when what is beside it grows: that can happen
    // before the browser tells of the scrolling, and the end is elsewhere then.
    let before = 0;
    screen.addEventListener("scroll", () => {
      const { scrollHeight, scrollTop, clientHeight } = screen;
      if (scrollHeight - scrollTop - clientHeight < 40) this.#follows = true;
      else if (scrollTop < before) this.#follows = false;
      before = scrollTop;
    });
    const sizes = new ResizeObserver(() => {
      if (this.#follows) screen.scrollTop = screen.scrollHeight;
    });
    for (const element of [screen, ...screen.children]) sizes.observe(element);
    this.clear();
  }

  clear() {
    this.isEmpty = true;
    this.#queue.length = 0;
    this.#readers = { stdout: new AnsiReader(), stderr: new AnsiReader() };
    this.#box.replaceChildren();
    this.#newBlock();
    this.#shown = 0;
    this.#again = false;
    this.#lineEnded = true;
    this.#follows = true;
  }

  /** Adds a piece of a stream. */
  push(stream, text) {
    this.isEmpty &&= text === "";
    for (let at = 0; at < text.length; at += BLOCK) this.#queue.push([stream, text.slice(at, at + BLOCK)]);
    this.#showSoon();
  }

  /** Marks where something is missing, with a sentence. What comes then begins anew. */
  gap(sentence) {
    this.end();
    this.#queue.push(["gap", sentence]);
  }

  /** Nothing more comes: what looked like the beginning of a sequence is text. */
  end() {
    this.#queue.push(["stdout", null], ["stderr", null]);
    this.#showSoon();
  }

  /** What is shown, as text: without the stream that the style hides. */
  text() {
    const { show = "all" } = this.#box.dataset;
    const pieces = [...this.#box.children].flatMap((block) => [...block.childNodes]);
    const isShown = ({ stream = show }) => show === "all" || stream === show;
    return pieces.filter(isShown).map((piece) => piece.textContent).join("");
  }

  #showSoon() {
    this.#waiting ??= requestAnimationFrame(() => this.#show());
  }

  #show() {
    this.#waiting = null;
    const until = performance.now() + SHARE;
    let done = 0;
    while (done < this.#queue.length && performance.now() < until) {
      const [stream, text] = this.#queue[done];
      const show = (part, look) => this.#write(stream, look, part);
      if (stream === "gap") this.#mark(text);
      else if (text === null) this.#readers[stream].end(show);
      else this.#readers[stream].read(text, show);
      done += 1;
    }
    this.#queue.splice(0, done);
    if (this.#queue.length) this.#showSoon();
  }

  #mark(sentence) {
    this.#box.append(make("div", { className: "note gap" }, sentence));
    this.#readers = { stdout: new AnsiReader(), stderr: new AnsiReader() };
    this.#again = false;
    this.#lineEnded = true;
    // However much came before, there is room for the end.
    this.#shown = 0;
    this.#newBlock();
  }

  #write(stream, look, text) {
    for (const part of text.split(/(\r+\n?)/)) {
      if (part.endsWith("\n") && part.startsWith("\r")) this.#append(stream, look, "\n");
      else if (part.startsWith("\r")) this.#again = true;
      else if (part) this.#append(stream, look, visible(part));
    }
  }

  #append(stream, look, text) {
    if (this.#again && text[0] !== "\n") this.#eraseLine();
    this.#again = false;
    for (let rest = text; rest;) {
      if (this.#shown >= MOST) {
        this.#tellTheEnd();
        return;
      }
      if (this.#size >= 2 * BLOCK || this.#size >= BLOCK && this.#lineEnded) this.#newBlock();
      // A block ends with a line, unless the line is endless.
      const most = 2 * BLOCK - this.#size;
      const line = rest.indexOf("\n", Math.max(BLOCK - this.#size, 0)) + 1;
      const part = rest.slice(0, line > 0 && line < most ? line : most);
      this.#span(stream, look).firstChild.appendData(part);
      this.#size += part.length;
      this.#shown += part.length;
      this.#lineEnded = part.endsWith("\n");
      rest = rest.slice(part.length);
    }
  }

  #newBlock() {
    this.#block = make("div", { className: "block" });
    this.#box.append(this.#block);
    this.#size = 0;
  }

  /** The last element if it has the same look, else a new one. */
  #span(stream, look) {
    const last = this.#block.lastChild;
    if (last && last.stream === stream && last.look.key === look.key) return last;
    const colour = (value) => typeof value === "number" ? `var(--ansi-${value})` : value ?? "";
    const span = make("span", { className: `${stream} ${look.flags}` }, document.createTextNode(""));
    span.style.setProperty("--fore", colour(look.colour));
    span.style.setProperty("--back", colour(look.background));
    span.classList.toggle("coloured", look.colour !== null);
    span.classList.toggle("filled", look.background !== null);
    Object.assign(span, { stream, look });
    this.#block.append(span);
    return span;
  }

  #eraseLine() {
    for (let span = this.#block.lastChild; span; span = this.#block.lastChild) {
      const text = span.firstChild;
      const kept = text.data.lastIndexOf("\n") + 1;
      this.#size -= text.length - kept;
      this.#shown -= text.length - kept;
      text.data = text.data.slice(0, kept);
      if (kept) return;
      span.remove();
    }
  }

  #tellTheEnd() {
    if (this.#box.lastChild.classList.contains("note")) return;
    this.#box.append(make("div", { className: "note" }, "There is more output, which is not shown here."));
  }
}
