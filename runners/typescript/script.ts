// Turns a cell into a script that declares its names globally, awaits at the top and returns its last value.
import Module, { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { Script } from "node:vm";
import { FILES, hasMarkup } from "./start.ts";

const { Bun } = globalThis; // as it was before the first cell: see kernel.ts

export const MAIN = `${FILES}/main.ts`;

// Cells get what both kinds of modules have, as if they were MAIN.
const require = createRequire(MAIN);
const module = Object.assign(new Module("."), { filename: MAIN, path: FILES, loaded: true });
const meta = Object.assign(Object.create(null), {
  dir: FILES,
  dirname: FILES,
  env: process.env,
  file: "main.ts",
  filename: MAIN,
  main: true,
  path: MAIN,
  require,
  resolve: (specifier: string, from = FILES) => {
    const found = Bun.resolveSync(specifier, from);
    return found.startsWith("/") ? pathToFileURL(found).href : found;
  },
  resolveSync: (specifier: string, from = FILES) => Bun.resolveSync(specifier, from),
  url: pathToFileURL(MAIN).href,
});
Object.assign(globalThis, { require, module, exports: module.exports });
Object.defineProperty(globalThis, "__importMeta", { value: meta });

const settings = {
  loader: "ts",
  target: "node", // for Bun, a require beside an import would become the one of import.meta, which scripts lack
  deadCodeElimination: false,
  define: {
    "import.meta": "__importMeta",
    "import.meta.main": "true",
    __dirname: JSON.stringify(FILES),
    __filename: JSON.stringify(MAIN),
  },
};
const scripts = new Bun.Transpiler({ ...settings, replMode: true } as never);
const modules = new Bun.Transpiler(settings as never);
const markup = new Bun.Transpiler({ ...settings, loader: "tsx", autoImportJSX: true } as never);

/** Finds modules from where the files are. */
function load(specifier: string, _: unknown, attributes: ImportAttributes): Promise<unknown> {
  return import(Bun.resolveSync(specifier, FILES), { with: attributes });
}

/** The cell's script, and whether it has a value to show, because its last statement is an expression. To Bun,
 * declarations have one too. */
export function compile(code: string, name: string): { script: Script; shown: boolean } {
  let source = hasMarkup(code) ? markup.transformSync(code) : objectOrBlock(code);
  let plain = modules.transformSync(source);
  for (;;) {
    const text = raiseFunctions(scripts.transformSync(source));
    try {
      const script = new Script(text, { filename: name, importModuleDynamically: load as never });
      return { script, shown: isExpression(plain) };
    } catch (error) {
      const line = text.split("\n")[(error as { line: number }).line - 1] ?? "";
      source = plain = withoutExport(plain, line.trim(), error);
    }
  }
}

/** Code that begins with a brace is an object if it can be one, as in every console, and otherwise a block. */
function objectOrBlock(code: string): string {
  if (!/^\s*\{/.test(code)) return code;
  return isModule(`(${code}\n)`) ? `(${code}\n)` : `;${code}`;
}

/** What Bun declares at the end for variables that the cell declares within its statements. */
const HOISTED = /(?<=^|\n)(?:var [^\s,;=]+;\n)+$/;

/** Only an expression can be followed by another one. */
function isExpression(plain: string): boolean {
  const last = plain.replace(HOISTED, "").trimEnd();
  return isModule(`${last.replace(/;$/, "")}\n, 0`);
}

function isModule(code: string): boolean {
  try {
    modules.transformSync(code);
    return true;
  } catch {
    return false;
  }
}

/** Bun leaves some exports as they are, which scripts may not have: the one that was refused becomes a declaration, an
 * expression, or an import. */
function withoutExport(plain: string, refused: string, error: unknown): string {
  const at = `\n${plain}`.indexOf(`\n${refused}`);
  if (!refused.startsWith("export ") || at < 0) throw error;
  const rest = plain
    .slice(at)
    .replace(/^export (\*|\{[^}]*\bdefault(?! as\b)[^}]*\}) from /, "import ")
    .replace(/^export (\{[^}]*\}|\* as \S+) from /, "import $1 from ")
    .replace(/^export \{[^}]*\};/, "")
    .replace(/^export (default )?(?=(async )?function\b|class (?!extends\b)\w)/, "")
    .replace(/^export default /, "0, ");
  if (rest.startsWith("export ")) throw error;
  return plain.slice(0, at) + rest;
}

/** Makes functions global, which Bun declares within one of its own and then copies: so if a later cell redefines one,
 * the others of its cell call the new one. What a cell is `using` is not global. */
function raiseFunctions(script: string): string {
  if (script.includes("__bun_temp_ref_")) return script;
  const declared = /^  this\.(\S+) = \1;\n(?=  (?:async )?function\*? \1\()/gm;
  let raised = "";
  const rest = script.split(declared);
  for (let at = 2; at < rest.length; at += 2) {
    const whole = functionAtStart(rest[at]!);
    raised += whole;
    rest[at] = rest[at]!.slice(whole.length);
  }
  return raised + rest.filter((_, at) => at % 2 === 0).join("");
}

function functionAtStart(text: string): string {
  for (const { 0: end, index } of text.matchAll(/^  (?:\}|(?:async )?function.*\{\})$/gm)) {
    const whole = text.slice(0, index + end.length);
    try {
      new Script(whole);
      return whole;
    } catch {
      // That was within a string.
    }
  }
  return "";
}
