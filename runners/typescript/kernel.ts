// A kernel: given one cell after the other, in one global scope; see runners/PROTOCOL.md, section 6.
//
// What this process answers is a hint to PID 1 that a cell is over, and no more.
//
// A cell may redefine any global, by `const console = …` or `import { setImmediate } from …`, which is its own affair:
// what is used here between cells was taken from the globals before the first one.
import { expect } from "bun:test";
import { readSync, writeSync } from "node:fs";
import { Script } from "node:vm";
import { compile, MAIN } from "./script.ts";
import { CHANNEL, FILES, firstCell, linkInstalled, type Request } from "./start.ts";

const { Boolean, Buffer, Bun, JSON, Number, Object, Promise, clearInterval, process, setImmediate, setInterval } =
  globalThis;
const show = console.log.bind(console);
const tell = console.error.bind(console);
const writers = [process.stdout, process.stderr].map((stream) => stream.write.bind(stream));

type Status = "ok" | "error" | "interrupted";

/** Thrown by `process.exit()`: ends the cell, not the kernel. */
class Exit extends Error {
  constructor(readonly code: number) {
    super(`process.exit(${code})`);
  }
}

class Interrupt extends Error {}

/** Ends the cell that waits for a promise. */
let stop: ((error: Error) => void) | undefined;

process.on("SIGINT", () => stop?.(new Interrupt()));
process.on("uncaughtException", (error) => {
  if (error instanceof Exit && stop) stop(error);
  else complain(error, "");
});
process.on("unhandledRejection", (error) => complain(error, ""));
process.exit = ((code?: number) => {
  throw new Exit(Number(code ?? process.exitCode ?? 0));
}) as never;

const WAIT = "__wait";
const MAX_FORM = 200_000; // characters

/** Runs a script that a SIGINT can end, with no line of ours among the places that errors name. */
function begin(script: Script): Promise<unknown> {
  return Promise.resolve({ breakOnSigint: true }).then(script.runInThisContext.bind(script) as never);
}

/** Turns the event loop until something has ended, which Bun does for tests that expect something of a promise. This is
 * done within a script, and so is everything that is waited for: only within a script can an endless loop be
 * interrupted. */
async function turn(ended: Promise<unknown>, name: string): Promise<void> {
  const matchers = expect(ended.then(Boolean, Boolean)).resolves;
  Object.defineProperty(globalThis, WAIT, { value: matchers.toBeBoolean.bind(matchers), configurable: true });
  const beat = setInterval(() => {}, 50); // otherwise it would be asleep when it is interrupted
  try {
    await begin(new Script(`this.${WAIT}(); 0`, { filename: name }));
  } finally {
    clearInterval(beat);
  }
}

/** Runs the code and whatever it awaits, and shows its value. */
async function run(code: string, name: string): Promise<Status> {
  const stopped = new Promise<never>((_, reject) => (stop = reject));
  stopped.catch(() => {});
  try {
    const { script, shown } = compile(code, name);
    const ended = Promise.race([begin(script), stopped]) as Promise<{ value: unknown } | undefined>;
    await turn(ended, name);
    const result = await ended;
    if (shown && result?.value !== undefined) give(result.value);
    if (process.exitCode) throw new Exit(Number(process.exitCode));
    return "ok";
  } catch (error) {
    return status(error, name);
  } finally {
    stop = undefined;
    process.exitCode = 0;
  }
}

/** What records begin with, if the caller of this cell wants to know what each part of its output is. */
let mark: string | undefined;

/** Takes the mark of a cell out of the variables that it is given. */
function takeMark(env: Record<string, string>): string | undefined {
  const found = env.SANDBOX_RECORDS;
  delete env.SANDBOX_RECORDS;
  delete process.env.SANDBOX_RECORDS;
  return found;
}

function record(stream: 0 | 1, what: object): void {
  writers[stream](`\x1e${mark}${JSON.stringify(what)}\x1e`);
}

/** Shows the value of a cell. */
function give(value: unknown): void {
  const text = Bun.inspect(value);
  const data = text.length > MAX_FORM ? `${text.slice(0, MAX_FORM)}…` : text;
  if (mark) record(0, { result: { "text/plain": { data: data.toWellFormed() } } });
  else show(text);
}

/** Packages that were installed while this kernel lived. */
const late = new Set<string>();

/** Makes Bun look again for a package that it remembers not having found: when it fails to find a file by its path, it
 * forgets what it knows about that directory. */
function lookAgain(name: string): void {
  late.add(name);
  let place = "/node_modules";
  for (const part of ["", ...name.split("/")]) {
    place += part && `/${part}`;
    try {
      Bun.resolveSync(`${place}/.none`, FILES);
    } catch {
      // As it should be.
    }
  }
}

/** Looks at something that was thrown, which may itself throw when it is looked at. */
function looked<T>(look: () => T, otherwise: T): T {
  try {
    return look();
  } catch {
    return otherwise;
  }
}

function isInterruption(error: unknown): boolean {
  return error instanceof Interrupt || (error as { code?: string })?.code === "ERR_SCRIPT_EXECUTION_INTERRUPTED";
}

function status(error: unknown, name: string): Status {
  const exit = looked(() => (error instanceof Exit ? error : undefined), undefined);
  if (exit) return exit.code === 0 ? "ok" : (complain(exit.message, name), "error");
  if (looked(() => isInterruption(error), false)) {
    report("Interrupted", "", "Interrupted");
    return "interrupted";
  }
  complain(error, name);
  return "error";
}

/** Lines of a script before an error that it threw. */
const EXCERPT = /(?:^ *\d+ \| .*\n)*^( *\d+ \| )(.*\n)( *\^\n(?:(?! +at ).*\n)* +at .*\(cell \d+\))/gm;

/** Where an error names a line of a script: its message is text like any other. */
const LINE = /^( +at (?:.*[ (])?cell \d+):\d+(?::\d+)?(?=\)?$)/gm;

/** Where Bun names the code that it was given, and not a file of the same name. */
const PLACE = /^( +at )input\.ts(?=:\d+:\d+$)/gm;

/** The script of `turn`, where Bun thinks that an error of its own functions began. */
const OURS = /^1 \| this\.__wait\(\); 0\n *\^\n/gm;

/** Reports what was thrown, with places in the code as it was given: lines of the script would mislead. */
function complain(error: unknown, name: string): void {
  const said = typeof error === "string" ? error : looked(() => Bun.inspect(error), "error: what was thrown cannot be shown");
  const lines = said.split("\n");
  const shown = lines.filter((line) => !line.includes("/opt/runner/") && !line.includes(" runInThisContext "));
  const placed = shown.join("\n").replaceAll(LINE, "$1").replaceAll(PLACE, `$1${name}`);
  const text = placed.replaceAll(OURS, "");
  const cut = text.replaceAll(EXCERPT, (_, number, line, rest) => line + rest.slice(number.length));
  const told = cut.replace(/Cannot find (?:package|module) '(.+)' (?:imported )?from '?([^\s']+)'?/, keptFrom);
  const [kind, value] = looked(() => named(error), ["Error", ""]);
  report(kind, value, told.trimEnd());
}

function named(error: unknown): [string, string] {
  const [name, value] = error instanceof Error ? [error.name, error.message] : ["Error", error];
  return [String(name).toWellFormed(), String(value).toWellFormed()];
}

/** Says that something was thrown, as a record around its text if that is wanted. */
function report(name: string, value: string, text: string): void {
  if (mark) record(1, { error: { name, value } });
  tell(text);
  if (mark) record(1, { errorEnd: true });
}

/** Explains why a module does not find a package that is there by now; what a cell itself does not find is missing. */
function keptFrom(told: string, wanted: string, module: string): string {
  const name = wanted.split("/", wanted.startsWith("@") ? 2 : 1).join("/");
  if (module === FILES || module === MAIN || !late.has(name)) return told;
  return `${module} is kept from before ${name} was installed: run this with restart: true`;
}

function read(length: number): Buffer {
  const bytes = Buffer.alloc(length);
  for (let at = 0; at < length; ) {
    const count = readSync(CHANNEL, bytes, at, length - at, null);
    if (count === 0) process.reallyExit(0);
    at += count;
  }
  return bytes;
}

async function flush(): Promise<void> {
  for (const write of writers) {
    await new Promise((resolve) => write("", resolve));
  }
}

for (let request: Request = firstCell!; ; request = JSON.parse(read(read(4).readUInt32BE(0)).toString())) {
  // An interrupt that came when its cell was over arrives now, and reaches nobody.
  await new Promise((resolve) => setImmediate(resolve));
  mark = takeMark(request.env);
  Object.assign(process.env, request.env);
  linkInstalled().forEach(lookAgain);
  const ended = await run(request.code, `cell ${request.cell}`);
  await flush();
  writeSync(CHANNEL, `done ${request.cell} ${ended}\n`);
}
