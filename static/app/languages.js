// The list of languages, as the server has them, and the examples of the one that is chosen.

import { examples } from "./examples.js";
import { byId, make } from "./dom.js";
import { allowState } from "./options.js";
import { allowPackages } from "./packages.js";

const languages = byId("language");
const choice = byId("example");
let editor = null;
let runners = [{ language: "python", aliases: [], description: "" }];
let chosen = "python";

/** The language of the program. */
export const language = () => chosen;

const own = (name) => Object.hasOwn(examples, name) ? examples[name] : [];
const runnerOf = (name) => runners.find((runner) => runner.language === name || runner.aliases.includes(name));
/** The names of a language, the most common first: editor and examples may know it by another one. */
const names = () => [chosen, ...runnerOf(chosen)?.aliases ?? []];
const itsExamples = () => names().map(own).find((list) => list.length) ?? [];

/** Shows the languages that the server has. */
export function setRunners(list) {
  runners = list;
  languages.replaceChildren(...list.map((runner) => make("option", { value: runner.language, title: runner.description }, runner.language)));
  languages.disabled = list.length === 0;
  const before = chosen;
  // A program in a language that is gone stays in the editor.
  showLanguage(runnerOf(chosen)?.language ?? list[0]?.language ?? chosen);
  if (before !== chosen && isExample(editor.text())) showFirstExample();
}

/** Goes to a language, without touching the program. */
export function showLanguage(name) {
  chosen = name;
  languages.value = name;
  // The server has not said yet what it has, or it has this no more.
  if (languages.value !== name) languages.append(make("option", { value: name, selected: true }, name));
  languages.title = runnerOf(name)?.description ?? "";
  allowState(runnerOf(name)?.stateful ?? false);
  allowPackages(name, runnerOf(name)?.packages ?? false);
  editor.setLanguage(names());
  const titles = itsExamples().map(([title], index) => make("option", { value: String(index) }, title));
  choice.replaceChildren(make("option", { value: "" }, "Examples"), ...titles);
  choice.disabled = titles.length === 0;
}

const exampleAt = (index) => itsExamples()[index]?.[1] ?? "";

/** Puts the first example of the language into the editor. */
export const showFirstExample = () => editor.setText(exampleAt(0));

/** Whether a program is an example that nobody has changed, or none at all. */
export const isExample = (text) => !text.trim() || Object.values(examples).flat().some(([, program]) => program === text);

/** Connects both lists. `onChange` is called when somebody has chosen a language, `onExample` gets a chosen program. */
export function connectLanguages(of, onChange, onExample) {
  editor = of;
  showLanguage(chosen);
  languages.onchange = () => {
    // What somebody wrote is not thrown away.
    const untouched = isExample(editor.text());
    showLanguage(languages.value);
    if (untouched) showFirstExample();
    onChange();
  };
  choice.onchange = () => {
    const code = exampleAt(Number(choice.value));
    choice.value = "";
    onExample({ language: chosen, code });
  };
}
