// Preloaded into every program: makes the program's directory look like /data, then lets Bun load the program.
//
// The program is /tmp/app/_main.ts, a name that few files have, because /data belongs to the user; run.sh has made that
// directory. What is in /data is linked beside it, so that `import { x } from "./helper"` and
// `new URL("./table.csv", import.meta.url)` find uploaded files by the ordinary rules. Bun starts in / (see run.sh), so
// that it takes no settings from files in /data.
//
// Packages of the image and installed ones are linked in a directory that is also /node_modules, and the program's own
// node_modules is that of /data. So programs, uploaded modules, and the packages themselves find what is in /data, what
// the image has, and what was installed, in this order.
//
// As a driver (see runners/PROTOCOL.md, section 5) it is of the `exec` kind: this very process waits here for its
// program, with Bun started, and then becomes it.
import {
  closeSync,
  existsSync,
  fstatSync,
  mkdirSync,
  readFileSync,
  readSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { dlopen } from "bun:ffi";

export const FILES = "/data";
const DIRECTORY = "/tmp/app";
const PROGRAM = `${DIRECTORY}/_main.ts`;
const LINKS = `${DIRECTORY}/.links`;
const INSTALLED = `${FILES}/.packages/typescript/node_modules`;
export const CHANNEL = 3;

export interface Request {
  code: string;
  env: Record<string, string>;
  /** What it reads from its standard input, if there is anything. */
  stdin?: string;
  /** Its number, if the process stays for more. */
  cell?: number;
}

/** For the kernel, if the program is one. */
export let firstCell: Request | undefined;

/** Only PID 1 starts a process with a socket as its descriptor 3. */
function isDriver(): boolean {
  try {
    return process.ppid === 1 && fstatSync(CHANNEL).isSocket();
  } catch {
    return false;
  }
}

function read(length: number): Buffer {
  const bytes = Buffer.alloc(length);
  for (let at = 0; at < length; ) {
    const count = readSync(CHANNEL, bytes, at, length - at, null);
    if (count === 0) process.exit(0);
    at += count;
  }
  return bytes;
}

function takeRequest(): void {
  writeSync(CHANNEL, `ready ${process.pid}\n`);
  const request: Request = JSON.parse(read(read(4).readUInt32BE(0)).toString());
  Object.assign(process.env, request.env);
  if (request.cell === undefined) closeSync(CHANNEL);
  else firstCell = request;
  if (!firstCell && request.stdin !== undefined) giveInput(request.stdin);
  inheritEnvironment(firstCell ? process.env : { ...process.env });
  writeFileSync(PROGRAM, firstCell ? 'import "/opt/runner/kernel.ts";' : request.code);
}

/** Whether code is TSX and cannot be TypeScript: what both can be, as `<T>(x)`, they read in different ways. */
export function hasMarkup(code: string): boolean {
  if (!/<\/|\/>/.test(code)) return false;
  const canBe = (loader: "ts" | "tsx") => {
    try {
      new Bun.Transpiler({ loader }).transformSync(code);
      return true;
    } catch {
      return false;
    }
  };
  return !canBe("ts") && canBe("tsx");
}

/** Gives modules what they write to when they think that they are none: Bun takes `require` in them, but not this. */
function takeExports(): void {
  if (readFileSync(PROGRAM, "utf8").includes("module.exports")) Object.assign(globalThis, { module: { exports: {} } });
}

/** Has Bun load the program as TSX, if that is what it is: it goes by the name of the file that a link leads to. What it
 * makes of markup imports React, which only modules can, and it takes a program with `require` for none. */
function nameMarkup(): void {
  const code = readFileSync(PROGRAM, "utf8");
  if (!hasMarkup(code)) return;
  unlinkSync(PROGRAM);
  const isCommon = /\b(?:require|module|exports|__filename|__dirname)\b/.test(code);
  writeFileSync(`${PROGRAM}x`, isCommon ? `export {};${code}` : code);
  symlinkSync(`${PROGRAM}x`, PROGRAM);
}

/** Has this process read a text from its standard input: from a file without a name, which is gone with who has it. */
export function giveInput(text: string): void {
  const { symbols } = dlopen("libc.so.6", {
    memfd_create: { args: ["ptr", "u32"], returns: "int" },
    dup2: { args: ["int", "int"], returns: "int" },
  });
  const bytes = Buffer.from(text);
  const file = symbols.memfd_create(Buffer.from("stdin\0"), 0);
  // At a position of its own, so that reading begins at the first byte.
  for (let at = 0; at < bytes.length; ) at += writeSync(file, bytes, at, bytes.length - at, at);
  symbols.dup2(file, 0);
  closeSync(file);
}

/** Makes `Bun.spawn` pass on `env`: by itself it passes on what there was when Bun started. */
function inheritEnvironment(env: Record<string, string | undefined>): void {
  for (const name of ["spawn", "spawnSync"] as const) {
    const native: Function = Bun[name];
    const inheriting = (first: any, ...rest: any[]) => {
      const [command, options] = Array.isArray(first) ? [[first], rest[0]] : [[], first];
      try {
        return native(...command, { ...options, env: options?.env ?? env });
      } catch (error) {
        Error.captureStackTrace(error as Error, inheriting);
        throw error;
      }
    };
    Object.defineProperty(inheriting, "name", { value: name });
    Bun[name] = inheriting as never;
  }
}

function linkFiles(): void {
  for (const name of readdirSync(FILES)) {
    try {
      symlinkSync(`${FILES}/${name}`, `${DIRECTORY}/${name}`);
    } catch {
      // The program itself, or linked before.
    }
  }
}

/** Packages that were installed in place of those of the image. */
function replaced(directory: string): string[] {
  try {
    return JSON.parse(readFileSync(`${directory}/.replaced`, "utf8"));
  } catch {
    return [];
  }
}

/** Links the packages of a directory, except those that are already linked, and returns the names of the new ones. */
function linkModules(directory: string): string[] {
  if (!existsSync(directory)) return [];
  const names: string[] = [];
  const first = replaced(directory);
  const link = (name: string) => {
    if (first.includes(name)) rmSync(`${LINKS}/${name}`, { force: true });
    else if (existsSync(`${LINKS}/${name}`)) return;
    symlinkSync(`${directory}/${name}`, `${LINKS}/${name}`);
    names.push(name);
  };
  try {
    for (const name of readdirSync(directory)) {
      if (name.startsWith(".")) continue;
      if (!name.startsWith("@")) {
        link(name);
        continue;
      }
      mkdirSync(`${LINKS}/${name}`, { recursive: true });
      for (const inner of readdirSync(`${directory}/${name}`)) link(`${name}/${inner}`);
    }
  } catch {
    // The conversation's programs may have made anything of it.
  }
  return names;
}

/** The directory of installed packages that is linked now: every install makes another. */
let linked: number | undefined;

/** Links what was installed for the conversation since the last call, and returns its names. */
export function linkInstalled(): string[] {
  const now = statSync(INSTALLED, { throwIfNoEntry: false })?.ino;
  if (now === linked) return [];
  linked = now;
  return linkModules(INSTALLED);
}

/** What of the console goes to which stream. `trace` is left alone: it shows who called it. */
const WRITERS = { 1: ["log", "info", "debug", "dir", "table"], 2: ["error", "warn", "assert"] } as const;
const FIONREAD = 0x541b;
const TRIES = 200;
const PATIENCE = 5;

/** Lets what the console wrote to one stream be read before it writes to the other: whoever reads two pipes cannot see
 * which of two lines came first when both are there. Whoever reads neither is not waited for again. */
function keepOutputInOrder(): void {
  if (![1, 2].every((stream) => fstatSync(stream).isFIFO())) return;
  const { symbols } = dlopen("libc.so.6", {
    ioctl: { args: ["int", "u64", "ptr"], returns: "int" },
    usleep: { args: ["u32"], returns: "int" },
  });
  const count = new Int32Array(1);
  const isUnread = (stream: number) => symbols.ioctl(stream, FIONREAD, count) === 0 && count[0] !== 0;
  let patience = PATIENCE;
  const catchUp = (stream: number, other: number) => {
    if (patience === 0 || !isUnread(other)) return;
    const [own, there] = [stream, other].map((number) => fstatSync(number));
    if (!there!.isFIFO() || own!.ino === there!.ino) return;
    let left = TRIES;
    for (; left > 0 && isUnread(other); left--) symbols.usleep(20);
    patience = left > 0 ? PATIENCE : patience - 1;
  };
  for (const stream of [1, 2] as const) {
    for (const name of WRITERS[stream]) {
      const native: Function = console[name];
      const ordered = (...values: unknown[]) => {
        catchUp(stream, 3 - stream);
        return native.apply(console, values);
      };
      Object.defineProperty(ordered, "name", { value: name });
      console[name] = ordered;
    }
  }
}

// Not `isMainThread` of node:worker_threads: that module takes 3 ms to load.
if (Bun.isMainThread) {
  keepOutputInOrder();
  if (isDriver()) takeRequest();
  takeExports();
  nameMarkup();
  linkFiles();
  linkInstalled();
  process.chdir(FILES);
}
