// Preloaded into every program: makes the program's directory look like /data, then lets Bun load the program.
//
// The program is /tmp/app/main.ts, because /data belongs to the user. What lies in /data is linked beside it,
// so that `import { x } from "./helper"` and `new URL("./table.csv", import.meta.url)` find uploaded files, by
// the ordinary rules. Bun starts in / (see run.sh), so that it takes no settings from files in /data.
//
// As a driver (see runners/PROTOCOL.md, section 5) it is of the `exec` kind: this very process waits here for its
// program, with Bun started and packages loaded, and then becomes it.
import {
  closeSync,
  existsSync,
  fstatSync,
  mkdirSync,
  readSync,
  readdirSync,
  statSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { isMainThread } from "node:worker_threads";

export const FILES = "/data";
export const DIRECTORY = "/tmp/app";
const PACKAGES = `${FILES}/.packages/typescript/node_modules`;
export const LINKS = `${DIRECTORY}/node_modules`; // there when Bun starts, which would not look again
const IMAGE = "/node_modules";
export const CHANNEL = 3;

export interface Request {
  code: string;
  env: Record<string, string>;
  /** Its number, where the process is to stay for more. */
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
  inheritEnvironment(firstCell ? process.env : { ...process.env });
  writeFileSync(`${DIRECTORY}/main.ts`, firstCell ? 'import "/opt/runner/kernel.ts";' : request.code);
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
  linkModules(`${FILES}/node_modules`);
}

/** Links the packages of a directory, but for those that are linked already. */
function linkModules(directory: string, unless = (_name: string) => false): void {
  if (!existsSync(directory)) return;
  const link = (name: string) => {
    const path = `${LINKS}/${name}`;
    if (!unless(name) && !existsSync(path)) symlinkSync(`${directory}/${name}`, path);
  };
  try {
    for (const name of readdirSync(directory)) {
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
}

/** The directory that the links lead to: every install makes another. */
let linked: number | undefined;

/** Links what was installed for the conversation, but for what the image has. Bun finds it by NODE_PATH too, but there
 * it reads no `exports`, and many packages have nothing else. */
export function linkPackages(): void {
  const now = statSync(PACKAGES, { throwIfNoEntry: false })?.ino;
  if (now === linked) return;
  linked = now;
  linkModules(PACKAGES, (name) => existsSync(`${IMAGE}/${name}`));
}

if (isMainThread) {
  if (isDriver()) takeRequest();
  linkFiles();
  linkPackages();
  process.chdir(FILES);
}
