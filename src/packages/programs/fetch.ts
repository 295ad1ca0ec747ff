// Finds out which npm packages some requirements need, downloads and unpacks them into /data/node_modules.
//
// Runs in a container of its own, with a directory of its own as /data: no conversation's code or file is here. What is
// asked for comes in the environment, what was found goes to standard output as one JSON object. `bun install` does the
// work, and runs no script of any package. What is in the cache is not downloaded again.
import {
  appendFileSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { readdir } from "node:fs/promises";

const WHEELHOUSE = "/packages/wheelhouse";
const CACHE = "/packages/cache";
const TARBALLS = "/data/tarballs";
const LOCK = "/data/bun.lock";
// A package in bun.lock: `"place": ["name@version", "address", {`, usually with a hash at the end.
const LOCKED = /^( +"[^"]+": \["([^"]+)@([^"@]+)", )"((?:https?:\/\/[^"]+)?)"(, \{.*?(?:"sha512-([\w+/]+=*)")?\],?)$/gm;
const TREE = "/data/node_modules";
// How many of the operator's archives are read at a time.
const READERS = 8;
// A registry that takes a connection and says nothing is given up after twenty seconds. Bun's own patience is half an hour.
const PATIENCE = { BUN_CONFIG_HTTP_IDLE_TIMEOUT: "5", BUN_CONFIG_HTTP_RETRY_COUNT: "1" };
// Failures of the machine, not of an archive.
const TROUBLE = /fork|Cannot allocate|Resource temporarily/i;
const RUNNER = "/opt/node_modules";

interface Wanted {
  name: string;
  versions: string;
}
interface Found {
  name: string;
  version: string;
}
/** What an archive says, with its file and the hash of that. */
interface Manifest extends Found {
  file: string;
  integrity: string;
}
/** A file that the server may keep for others. */
interface Kept {
  name: string;
  sha256: string;
}
/** A package of bun.lock: where it comes from, empty for the default registry, and its hash in hexadecimal. */
interface Locked extends Found {
  address: string;
  sha512?: string;
}

// The same, of a package that comes from an address, a path or a repository, which its `version` then is.
const ADDRESSED = /^ +"[^"]+": \["(@?[^"@]+)@(?!\d+\.\d+\.\d+)[^"]*"/gm;

// The same in the words of Bun, when it cannot get there.
const NOT_REACHED = /(@?[^\s"@]+)@(?:file|link|git|github|https?)[+:]\S* failed to resolve/g;

/** Ends the program with a reason that the server knows, and a sentence. */
class Failed extends Error {
  constructor(
    readonly reason: string,
    detail: string,
  ) {
    super(detail);
  }
}

function manifest(directory: string): any {
  try {
    return JSON.parse(readFileSync(`${directory}/package.json`, "utf8"));
  } catch {
    return undefined;
  }
}

/** What is part of the runner, in a version that will do. */
function provided(wanted: Wanted[]): Found[] {
  return wanted.flatMap(({ name, versions }) => {
    const version = manifest(`${RUNNER}/${name}`)?.version;
    const willDo = version !== undefined && (!versions || Bun.semver.satisfies(version, versions));
    return willDo ? [{ name, version }] : [];
  });
}

/** The operator's directory of .tgz, as a registry that Bun asks: it chooses versions, several of one package if need
 * be, what is for this machine, and what packages want beside them, as from any other. */
class Shelf {
  /** What was asked for, with the versions that there are. */
  readonly asked = new Map<string, string[]>();
  private readonly files = readdirSync(WHEELHOUSE).filter((name) => name.endsWith(".tgz"));
  private readonly read = new Map<string, Promise<Manifest[]>>();

  async answer(request: Request): Promise<Response> {
    const { origin, pathname } = new URL(request.url);
    const [name, file] = decodeURIComponent(pathname.slice(1)).split("/-/") as [string, string?];
    if (file !== undefined) {
      return this.files.includes(file) ? new Response(Bun.file(`${WHEELHOUSE}/${file}`)) : new Response(null, { status: 404 });
    }
    const found = await this.versions(name);
    this.asked.set(name, found.map(({ version }) => version));
    if (!found.length) return new Response(null, { status: 404 });
    const versions = found.map((one) => {
      const tarball = `${origin}/${name}/-/${encodeURIComponent(one.file)}`;
      return [one.version, { ...one, dist: { tarball, integrity: one.integrity } }] as const;
    });
    const released = found.filter(({ version }) => !version.includes("-"));
    const latest = (released.length ? released : found).map(({ version }) => version).sort(Bun.semver.order).at(-1);
    return Response.json({ name, "dist-tags": { latest }, versions: Object.fromEntries(versions) });
  }

  /** Those in archives that `npm pack` has named; only where there are none, all archives are looked into. */
  private async versions(name: string): Promise<Manifest[]> {
    const start = `${name.replace("@", "").replace("/", "-")}-`;
    const named = this.files.filter((file) => file.startsWith(start) && /\d/.test(file[start.length] ?? ""));
    const likely = await this.manifests(named);
    const of = (all: Manifest[]) => all.filter((one) => one.name === name);
    return of(likely).length ? of(likely) : of(await this.manifests(this.files));
  }

  private async manifests(files: string[]): Promise<Manifest[]> {
    const found: Manifest[] = [];
    // Each takes two processes, and only a few are allowed.
    const waiting = files.values();
    const read = async () => {
      for (const file of waiting) {
        if (!this.read.has(file)) this.read.set(file, manifestsIn(file));
        found.push(...(await this.read.get(file)!));
      }
    };
    await Promise.all(Array.from({ length: READERS }, read));
    return found;
  }
}

/** What an archive says about itself: nothing if it is not a package. */
async function manifestsIn(file: string): Promise<Manifest[]> {
  const path = `${WHEELHOUSE}/${file}`;
  const command = ["tar", "-xzOf", path, "--wildcards", "--no-wildcards-match-slash", "*/package.json"];
  const tar = Bun.spawn(command, { stderr: "pipe" });
  const [text, said] = await Promise.all([new Response(tar.stdout).text(), new Response(tar.stderr).text()]);
  // If the machine cannot read it, that says nothing about the archive.
  if ((await tar.exited) !== 0 && TROUBLE.test(said)) throw new Failed("broken", said);
  try {
    const { name, version, ...rest } = JSON.parse(text);
    if (typeof name !== "string" || typeof version !== "string") return [];
    const { sha512 } = await copy(Bun.file(path).stream());
    return [{ ...rest, name, version, file, integrity: `sha512-${Buffer.from(sha512, "hex").toString("base64")}` }];
  } catch {
    return [];
  }
}

/** Installs from the operator's directory. */
async function installFromStock(dependencies: Record<string, string>): Promise<void> {
  writeFileSync("/data/package.json", JSON.stringify({ dependencies }));
  const shelf = new Shelf();
  let trouble: Failed | undefined;
  const server = serve(async (request) => {
    try {
      return await shelf.answer(request);
    } catch (error) {
      trouble ??= error instanceof Failed ? error : undefined;
      throw error;
    }
  });
  try {
    const failed = await bun([], { NPM_CONFIG_REGISTRY: server.url.href });
    if (!failed) return refuseAddresses();
    if (trouble || failed.reason !== "not_found") throw trouble ?? failed;
    const missing = [...shelf.asked].filter(([name]) => failed.message.includes(name));
    const known = missing.map(([name, versions]) => `${name} in the directory: ${versions.join(", ") || "none"}`);
    throw new Failed("not_found", [failed.message, ...known].join("; "));
  } finally {
    server.stop(true);
  }
}

/** Serves Bun, and nobody else: there is no other program in this container. */
function serve(answer: (request: Request) => Promise<Response>) {
  return Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    development: false,
    fetch: answer,
    error: () => new Response(null, { status: 503 }),
  });
}

/** Installs from the index, and returns what can be kept for others. */
async function install(dependencies: Record<string, string>): Promise<Kept[]> {
  writeFileSync("/data/package.json", JSON.stringify({ dependencies }));
  if (existsSync(CACHE)) {
    const stock = cached();
    const unresolved = await bun(["--lockfile-only"]);
    // The registry would say the same again.
    if (unresolved && ["not_found", "offline"].includes(unresolved.reason)) throw unresolved;
    if (!unresolved) refuseAddresses();
    const kept = unresolved ? undefined : await byWayOfTheCache(await stock).catch(() => undefined);
    if (kept) return kept;
    // Without the cache it may work, and if not, Bun says why.
    for (const left of [TREE, TARBALLS, LOCK, "/data/cache"]) rmSync(left, { recursive: true, force: true });
  }
  const failed = await bun([]);
  if (failed) throw failed;
  refuseAddresses();
  return [];
}

/** Refuses what a dependency takes from somewhere else than the registry. */
function refuseAddresses() {
  const failed = addressed(readFileSync(LOCK, "utf8"), ADDRESSED);
  if (failed) throw failed;
}

/** Why packages that come from an address of their own are not installed, if there are any. */
function addressed(text: string, form: RegExp): Failed | undefined {
  const names = [...text.matchAll(form)].map((found) => found[1]).join(", ");
  const why = "needed from an address of its own, and packages come from the registry only";
  return names ? new Failed("incompatible", `${names}: ${why}`) : undefined;
}

/** Whether for ten seconds all connections to elsewhere are such that nobody answers to: what is dropped on the way
 * is no error, and Bun waits as long as the kernel does. */
function isStuck(): boolean {
  const states = ["tcp", "tcp6"].flatMap((kind) => {
    const rows = readFileSync(`/proc/net/${kind}`, "utf8").trim().split("\n").slice(1);
    const sockets = rows.map((row) => row.trim().split(/\s+/));
    return sockets.filter(([, , remote]) => !remote!.includes("0100007F:")).map(([, , , state]) => state);
  });
  const [ESTABLISHED, SYN_SENT] = ["01", "02"];
  const hopeless = states.includes(SYN_SENT!) && !states.includes(ESTABLISHED);
  stuckSince = hopeless ? (stuckSince ?? performance.now()) : undefined;
  return stuckSince !== undefined && performance.now() - stuckSince > 10_000;
}
let stuckSince: number | undefined;

/** Runs `bun install`, and says why it failed. This process does not block: Bun may be asking it for tarballs. */
async function bun(more: string[], environment: Record<string, string> = {}): Promise<Failed | undefined> {
  const options = ["--ignore-scripts", "--no-progress", "--no-summary", "--linker=hoisted"];
  const certificates = process.env.NODE_EXTRA_CA_CERTS ? [`--cafile=${process.env.NODE_EXTRA_CA_CERTS}`] : [];
  const done = Bun.spawn(["bun", "install", ...options, "--backend=copyfile", "--cache-dir=/data/cache", ...certificates, ...more], {
    cwd: "/data",
    stdin: "ignore",
    stdout: "ignore",
    stderr: "pipe",
    env: { ...process.env, ...PATIENCE, TMPDIR: "/data/tmp", BUN_TMPDIR: "/data/tmp", ...environment },
  });
  let reached = true;
  const watching = setInterval(() => {
    if (isStuck()) {
      reached = false;
      done.kill();
    }
  }, 1000);
  const said = await new Response(done.stderr).text();
  const status = await done.exited;
  clearInterval(watching);
  if (!reached) return new Failed("offline", "the package registry cannot be reached");
  if (status === 0) return undefined;
  return addressed(said, NOT_REACHED) ?? diagnose(said);
}

/** The tarballs that the server keeps, by the sha512 in their names; their contents are not verified yet. */
async function cached(): Promise<Map<string, string[]>> {
  const found = new Map<string, string[]>();
  for (const path of await readdir(CACHE, { recursive: true }).catch(() => [])) {
    const sha512 = /^[0-9a-f]{64}\/([0-9a-f]{128})\.tgz$/.exec(path)?.[1];
    if (sha512) found.set(sha512, [...(found.get(sha512) ?? []), path]);
  }
  return found;
}

/** Installs what bun.lock says, taking from the cache the tarballs that it has; returns nothing if that did not work.
 *
 * Bun asks a server in this process for them. So only what it installs is downloaded, as many at a time as usual, and
 * Bun compares each with the hash in bun.lock, wherever it came from. Bun's own cache cannot be shared: its files are
 * unpacked, and no hash from the registry says what should be in them. */
async function byWayOfTheCache(stock: Map<string, string[]>): Promise<Kept[] | undefined> {
  mkdirSync(TARBALLS);
  const registry = process.env.NPM_CONFIG_REGISTRY ? new URL(process.env.NPM_CONFIG_REGISTRY) : undefined;
  const tarballs = new Tarballs(stock, registry?.origin);
  const server = serve((request) => tarballs.answer(request));
  try {
    const lock = readFileSync(LOCK, "utf8").replace(LOCKED, (_, before, name, version, address, after, hash) => {
      const sha512 = hash && Buffer.from(hash, "base64").toString("hex");
      return `${before}"${server.url}${tarballs.add({ name, version, address, sha512 })}"${after}`;
    });
    writeFileSync(LOCK, lock);
    const environment: Record<string, string> = {};
    if (registry) {
      // Bun derives the registry's credentials from its address, and sends them only there.
      registry.protocol = "http:";
      registry.host = server.url.host;
      environment.NPM_CONFIG_REGISTRY = registry.href;
    }
    const failed = await bun(["--frozen-lockfile"], environment);
    return failed ? undefined : [...tarballs.kept.values()];
  } finally {
    tarballs.end.abort();
    server.stop(true);
  }
}

/** Gives tarballs to Bun: those in the cache, and the others from their addresses. */
class Tarballs {
  readonly kept = new Map<string, Kept>();
  readonly end = new AbortController();
  private readonly all: Locked[] = [];
  private base?: Promise<string | undefined>;

  constructor(
    private readonly stock: Map<string, string[]>,
    private readonly registry: string | undefined,
  ) {}

  /** Adds a package, and returns the path by which it will be asked for. */
  add(one: Locked): number {
    return this.all.push(one) - 1;
  }

  async answer(request: Request): Promise<Response> {
    const number = Number(new URL(request.url).pathname.slice(1));
    const one = this.all[number];
    const file = one && (await this.fromCache(one));
    if (!one || file) return file ? new Response(Bun.file(file)) : new Response(null, { status: 404 });
    const address = one.address || (await this.standard(one));
    if (!address) return new Response(null, { status: 404 });
    const headers: Record<string, string> = { "accept-encoding": "identity" };
    const word = request.headers.get("authorization");
    if (word && new URL(address).origin === this.registry) headers.authorization = word;
    // If it cannot be reached, Bun tries again.
    const found = await fetch(address, { headers, signal: this.end.signal });
    if (!found.ok || !found.body || !one.sha512) return new Response(found.body, { status: found.status });
    try {
      return new Response(Bun.file(await this.store(one.sha512, number, found.body)));
    } catch {
      return new Response(null, { status: 404 }); // For example too large for a file: Bun need not try again.
    }
  }

  /** The file in the cache that has the hash: its name alone proves nothing. */
  private async fromCache({ sha512 }: Locked): Promise<string | undefined> {
    for (const path of (sha512 && this.stock.get(sha512)) || []) {
      const hashes = await copy(Bun.file(`${CACHE}/${path}`).stream()).catch(() => undefined);
      if (hashes?.sha512 !== sha512) continue;
      this.kept.set(sha512!, { name: `${sha512}.tgz`, sha256: path.split("/")[0]! });
      return `${CACHE}/${path}`;
    }
    return undefined;
  }

  /** Writes a download to a file, named after its hash if that is the expected one. */
  private async store(sha512: string, number: number, from: ReadableStream<Uint8Array>): Promise<string> {
    const [part, whole] = [`${TARBALLS}/${number}`, `${TARBALLS}/${sha512}.tgz`];
    const hashes = await copy(from, part);
    if (hashes.sha512 !== sha512) return part; // Bun will say so.
    renameSync(part, whole);
    this.kept.set(sha512, { name: `${sha512}.tgz`, sha256: hashes.sha256 });
    return whole;
  }

  /** The address of a package in the default registry. bun.lock leaves it out, so Bun is asked for one of them. */
  private async standard({ name, version }: Locked): Promise<string | undefined> {
    const end = `/${name}/-/${name.split("/").pop()}-${version}.tgz`;
    const ask = async () => {
      const info = Bun.spawn(["bun", "info", `${name}@${version}`, "dist.tarball"], { cwd: "/data", stdin: "ignore", stderr: "ignore" });
      const said = (await new Response(info.stdout).text()).trim();
      return said.endsWith(end) ? said.slice(0, -end.length) : undefined;
    };
    const base = await (this.base ??= ask());
    return base && base + end;
  }
}

/** Reads to the end, into a file if one is given, and returns the hashes of what it read. */
async function copy(from: ReadableStream<Uint8Array>, to?: string): Promise<{ sha256: string; sha512: string }> {
  const [sha256, sha512] = [new Bun.CryptoHasher("sha256"), new Bun.CryptoHasher("sha512")];
  const file = to === undefined ? undefined : openSync(to, "w");
  try {
    for await (const piece of from) {
      sha256.update(piece);
      sha512.update(piece);
      if (file !== undefined) appendFileSync(file, piece);
    }
  } finally {
    if (file !== undefined) closeSync(file);
  }
  return { sha256: sha256.digest("hex"), sha512: sha512.digest("hex") };
}

/** Why Bun failed, without addresses, which may have a password in them. */
function diagnose(text: string): Failed {
  const lines = text.split("\n").filter((line) => line.startsWith("error: "));
  const said = lines.map((line) => line.slice(7)).join(" ").replace(/\w+:\/\/\S+/g, "(address)");
  if (/ - 404|No version matching|but package exists/.test(text)) return new Failed("not_found", said);
  const status = / - ([45]\d\d)\b/.exec(text)?.[1];
  if (status) return new Failed("offline", `the package registry answers with status ${status}`);
  if (/certificate|CERT_/i.test(text) || /_CERT\b|UNABLE_TO_VERIFY|ERR_TLS_|HOSTNAME_MISMATCH|INVALID_CA\b/.test(text)) {
    return new Failed("offline", "the certificate of the package registry is not trusted: the operator can set PACKAGE_CA_BUNDLE");
  }
  if (/Connection(Refused|Closed|Reset)|DNSResolveFailed|Timeout|Unreachable|FailedToOpenSocket|UnableToConnect/i.test(text)) {
    return new Failed("offline", "the package registry cannot be reached");
  }
  if (/FileTooBig|File too large|NoSpaceLeft/i.test(text)) return new Failed("too_large", said);
  return said ? new Failed("incompatible", said) : new Failed("broken", text.replace(/\w+:\/\/\S+/g, "(address)").slice(-500));
}

/** The packages of a node_modules under the names by which programs find them, and all others: copies inside packages,
 * which only those find, and the real names of what is installed under another name. */
function packages(tree: string): { found: Found[]; others: Found[] } {
  const [found, others]: [Found[], Found[]] = [[], []];
  for (const name of existsSync(tree) ? readdirSync(tree) : []) {
    const names = name.startsWith("@") ? readdirSync(`${tree}/${name}`).map((inner) => `${name}/${inner}`) : [name];
    for (const name of names) {
      const about = manifest(`${tree}/${name}`);
      if (about === undefined) continue;
      const version = String(about.version ?? "");
      found.push({ name, version });
      if (typeof about.name === "string" && about.name !== name) others.push({ name: about.name, version });
      const inside = packages(`${tree}/${name}/node_modules`);
      others.push(...inside.found, ...inside.others);
    }
  }
  return { found, others };
}

async function main() {
  const request = JSON.parse(process.env.PACKAGES_REQUEST!);
  delete process.env.PACKAGES_REQUEST;
  mkdirSync("/data/tmp");
  const there = provided(request.requirements);
  const wanted: Wanted[] = request.requirements.filter((one: Wanted) => !there.some((found) => found.name === one.name));
  const dependencies = Object.fromEntries(wanted.map(({ name, versions }) => [name, versions || "*"]));
  let files: Kept[] = [];
  if (wanted.length && !request.index) {
    if (!request.wheelhouse) throw new Failed("not_found", wanted.map(({ name }) => name).join(", "));
    await installFromStock(dependencies);
  } else if (wanted.length) {
    files = await install(dependencies);
  }
  // For start.ts: these come before those of the runner.
  const replaced = wanted.map(({ name }) => name).filter((name) => existsSync(`${RUNNER}/${name}`));
  if (replaced.length) writeFileSync(`${TREE}/.replaced`, JSON.stringify(replaced));
  const { found, others } = packages(TREE);
  const count = found.length + others.length;
  if (count > request.mostPackages) {
    throw new Failed("too_large", `${count} packages are needed, at most ${request.mostPackages} may be`);
  }
  const size = existsSync(TREE) ? Bun.spawnSync(["du", "-sb", TREE]).stdout.toString() : "0";
  return { outcome: "fetched", packages: found, others, files, provided: there, bytes: parseInt(size) };
}

try {
  console.log(JSON.stringify(await main()));
} catch (error) {
  if (!(error instanceof Failed)) throw error;
  console.log(JSON.stringify({ outcome: "failed", reason: error.reason, detail: error.message.slice(0, 2000) }));
}
