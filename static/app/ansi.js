// Reads the colours of terminals (ECMA-48) out of text. Nothing else that steers a terminal has an effect.

const ESCAPE = "\u001b";
// Control sequence; string such as a title or a link, up to its end; any other of few characters.
const SEQUENCE = /^\u001b(?:\[([0-?]*)[ -/]*([@-~])|[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\)|[ -/]+[0-~]|[0-Z\\^`-~])/;
/** A sequence that is not complete after so many characters is none. */
const LONGEST = 4096;

const FLAGS = { 1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "inverse", 9: "strike" };
const RESETS = { 22: ["bold", "dim"], 23: ["italic"], 24: ["underline"], 27: ["inverse"], 29: ["strike"] };

/** The look of some text: flags, and two colours, each a number from 0 to 15, `rgb(…)`, or nothing. */
const lookOf = (flags, colour, background) => ({ flags, colour, background, key: `${flags}/${colour}/${background}` });
const PLAIN = lookOf("", null, null);

/** Reads one stream, whose pieces may end in the middle of a sequence. */
export class AnsiReader {
  look = PLAIN;
  #rest = "";

  /** Gives `show(text, look)` the text of the next piece. */
  read(piece, show) {
    let text = this.#rest + piece;
    this.#rest = "";
    for (;;) {
      const at = text.indexOf(ESCAPE);
      if (at !== 0 && text) show(at < 0 ? text : text.slice(0, at), this.look);
      if (at < 0) return;
      text = text.slice(at);
      const found = SEQUENCE.exec(text);
      if (!found && text.length < LONGEST && !/^\u001b(?:\[[^]*[^ -?]|[^[\]PX^_ -/])/.test(text)) {
        this.#rest = text;
        return;
      }
      // Of what is no sequence only its first character goes.
      text = text.slice(found ? found[0].length : 1);
      if (found?.[2] === "m") this.look = styled(this.look, found[1]);
    }
  }

  /** Gives `show` what waits for the rest of a sequence that does not come any more. */
  end(show) {
    while (this.#rest) {
      const text = this.#rest.slice(1);
      this.#rest = "";
      this.read(text, show);
    }
  }
}

/** The look after a sequence that selects one. */
function styled(look, parameters) {
  const numbers = parameters.split(/[;:]/).map((number) => Number(number) || 0);
  const flags = new Set(look.flags.split(" ").filter(Boolean));
  let { colour, background } = look;
  for (let at = 0; at < numbers.length; at += 1) {
    const number = numbers[at];
    if (number === 0) {
      flags.clear();
      colour = background = null;
    } else if (FLAGS[number]) flags.add(FLAGS[number]);
    else if (RESETS[number]) RESETS[number].forEach((flag) => flags.delete(flag));
    else if (number === 39) colour = null;
    else if (number === 49) background = null;
    else if (number === 38 || number === 48) {
      const [value, used] = extended(numbers.slice(at + 1));
      at += used;
      if (number === 38) colour = value;
      else background = value;
    } else if (between(number, 30, 37)) colour = number - 30;
    else if (between(number, 90, 97)) colour = number - 82;
    else if (between(number, 40, 47)) background = number - 40;
    else if (between(number, 100, 107)) background = number - 92;
  }
  return lookOf([...flags].join(" "), colour, background);
}

/** A colour of 256, or one of red, green and blue, and how many numbers it took. */
function extended([kind, ...values]) {
  if (kind === 2) return [`rgb(${values.slice(0, 3).map((value) => Math.min(value ?? 0, 255)).join(" ")})`, 4];
  if (kind !== 5) return [null, 1];
  const number = Math.min(values[0] ?? 0, 255);
  if (number < 16) return [number, 2];
  if (number >= 232) return [`rgb(${Array(3).fill(8 + (number - 232) * 10).join(" ")})`, 2];
  const level = (place) => [0, 95, 135, 175, 215, 255][Math.floor((number - 16) / place) % 6];
  return [`rgb(${level(36)} ${level(6)} ${level(1)})`, 2];
}

const between = (number, least, most) => number >= least && number <= most;
