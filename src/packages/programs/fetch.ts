// Finds out which npm packages some requirements need, downloads and unpacks them into /data/node_modules.
//
// Runs in a container of its own, with a directory of its own as /data: no conversation's code or file is here. What
// is asked for comes in the environment, what was found goes to standard output as one JSON object. `bun install`
// does the work, and runs no script of any package.
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";

const WHEELHOUSE = "/packages/wheelhouse";
const TREE = "/data/node_modules";
const RUNNER = "/node_modules";

interface Wanted {
  name: string;
  versions: string;
}
interface Found {
  name: string;
  version: string;
}
interface Manifest extends Found {
  file: string;
  dependencies?: Record<string, string>;
}

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

/** What is part of the runner, which comes first wherever a program looks. */
function provided(wanted: Wanted[]): Found[] {
  return wanted.flatMap(({ name, versions }) => {
    const version = manifest(`${RUNNER}/${name}`)?.version;
    if (version === undefined) return [];
    if (versions && !Bun.semver.satisfies(version, versions)) {
      throw new Failed("incompatible", `${name} ${version} is part of the runner, and ${versions} was asked for`);
    }
    return [{ name, version }];
  });
}

/** The packages in a directory of .tgz. */
async function stock(): Promise<Manifest[]> {
  const files = readdirSync(WHEELHOUSE).filter((name) => name.endsWith(".tgz"));
  const read = async (name: string) => {
    const file = `${WHEELHOUSE}/${name}`;
    const tar = Bun.spawn(["tar", "-xzOf", file, "--wildcards", "--no-wildcards-match-slash", "*/package.json"]);
    try {
      return [{ ...JSON.parse(await new Response(tar.stdout).text()), file }];
    } catch {
      return []; // Not a package.
    }
  };
  return (await Promise.all(files.map(read))).flat();
}

/** What to write into package.json so that everything comes from the stock: one version of each package. */
function fromStock(wanted: Wanted[], all: Manifest[]): Record<string, string> {
  const chosen = new Map<string, Manifest>();
  const waiting = wanted.map((one) => ({ ...one, by: "what was asked for" }));
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    const { name, versions, by } = next;
    const there = all.filter((one) => one.name === name);
    const fitting = there.filter((one) => Bun.semver.satisfies(one.version, versions || "*"));
    const best = fitting.sort((left, right) => Bun.semver.order(right.version, left.version))[0];
    if (!best) {
      const known = there.map((one) => one.version).join(", ") || "none";
      throw new Failed("not_found", `${name} ${versions || "*"} (needed by ${by}; versions in the directory: ${known})`);
    }
    const before = chosen.get(name);
    if (before && !Bun.semver.satisfies(before.version, versions || "*")) {
      throw new Failed("incompatible", `${name} is needed as ${before.version} and as ${versions} (by ${by})`);
    }
    if (before) continue;
    chosen.set(name, best);
    for (const [name, versions] of Object.entries(best.dependencies ?? {})) {
      waiting.push({ name, versions, by: `${best.name} ${best.version}` });
    }
  }
  return Object.fromEntries([...chosen].map(([name, { file }]) => [name, `file:${file}`]));
}

function install(dependencies: Record<string, string>, overrides: Record<string, string>, offline: boolean): void {
  writeFileSync("/data/package.json", JSON.stringify({ dependencies, overrides }));
  const options = ["--ignore-scripts", "--no-progress", "--no-summary", "--omit=peer", "--linker=hoisted"];
  const certificates = process.env.NODE_EXTRA_CA_CERTS ? [`--cafile=${process.env.NODE_EXTRA_CA_CERTS}`] : [];
  const done = Bun.spawnSync(
    ["bun", "install", ...options, "--backend=copyfile", "--cache-dir=/data/cache", ...certificates, ...(offline ? ["--offline"] : [])],
    { cwd: "/data", stdin: "ignore", stdout: "ignore", stderr: "pipe", env: { ...process.env, TMPDIR: "/data/tmp", BUN_TMPDIR: "/data/tmp" } },
  );
  if (!done.success) throw diagnose(done.stderr.toString());
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

/** All packages below a node_modules, by their own names and by those that they are installed under. */
function* packages(tree: string): Generator<Found> {
  for (const name of existsSync(tree) ? readdirSync(tree) : []) {
    const names = name.startsWith("@") ? readdirSync(`${tree}/${name}`).map((inner) => `${name}/${inner}`) : [name];
    for (const name of names) {
      const found = manifest(`${tree}/${name}`);
      if (found === undefined) continue;
      const version = String(found.version ?? "");
      yield { name, version };
      if (typeof found.name === "string" && found.name !== name) yield { name: found.name, version };
      yield* packages(`${tree}/${name}/node_modules`);
    }
  }
}

async function main() {
  const request = JSON.parse(process.env.PACKAGES_REQUEST!);
  delete process.env.PACKAGES_REQUEST;
  mkdirSync("/data/tmp");
  const there = provided(request.requirements);
  const wanted: Wanted[] = request.requirements.filter((one: Wanted) => !there.some((found) => found.name === one.name));
  if (wanted.length && !request.index) {
    if (!request.wheelhouse) throw new Failed("not_found", wanted.map(({ name }) => name).join(", "));
    const files = fromStock(wanted, await stock());
    install(Object.fromEntries(wanted.map(({ name }) => [name, files[name]!])), files, true);
  } else if (wanted.length) {
    install(Object.fromEntries(wanted.map(({ name, versions }) => [name, versions || "*"])), {}, false);
  }
  const found = [...packages(TREE)];
  if (found.length > request.mostPackages) {
    throw new Failed("too_large", `${found.length} packages are needed, at most ${request.mostPackages} may be`);
  }
  const size = existsSync(TREE) ? Bun.spawnSync(["du", "-sb", TREE]).stdout.toString() : "0";
  return { outcome: "fetched", packages: found, files: [], provided: there, bytes: parseInt(size) };
}

try {
  console.log(JSON.stringify(await main()));
} catch (error) {
  if (!(error instanceof Failed)) throw error;
  console.log(JSON.stringify({ outcome: "failed", reason: error.reason, detail: error.message.slice(0, 2000) }));
}
