// The code editor of the page: CodeMirror with the languages that runners are likely to have.
//
// It lives in a shadow root, because there CodeMirror adopts its style sheets instead of writing style elements, which
// the page's policy forbids. Colours are custom properties of the page, so they follow its light and dark.

import { closeBrackets, closeBracketsKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { javascript } from "@codemirror/lang-javascript";
import { python } from "@codemirror/lang-python";
import {
  bracketMatching, HighlightStyle, indentOnInput, indentUnit, StreamLanguage, syntaxHighlighting,
} from "@codemirror/language";
import { c, cpp, csharp, java, kotlin, scala } from "@codemirror/legacy-modes/mode/clike";
import { go } from "@codemirror/legacy-modes/mode/go";
import { julia } from "@codemirror/legacy-modes/mode/julia";
import { lua } from "@codemirror/legacy-modes/mode/lua";
import { perl } from "@codemirror/legacy-modes/mode/perl";
import { r } from "@codemirror/legacy-modes/mode/r";
import { ruby } from "@codemirror/legacy-modes/mode/ruby";
import { rust } from "@codemirror/legacy-modes/mode/rust";
import { shell } from "@codemirror/legacy-modes/mode/shell";
import { Compartment, EditorState } from "@codemirror/state";
import {
  drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, highlightSpecialChars, keymap, lineNumbers,
} from "@codemirror/view";
import { tags } from "@lezer/highlight";

const stream = (mode) => () => StreamLanguage.define(mode);
const languages = {
  python: [python, "    "],
  typescript: [() => javascript({ typescript: true }), "  "],
  javascript: [javascript, "  "],
  shell: [stream(shell), "  "],
  bash: [stream(shell), "  "],
  c: [stream(c), "    "],
  cpp: [stream(cpp), "    "],
  csharp: [stream(csharp), "    "],
  go: [stream(go), "\t"],
  java: [stream(java), "    "],
  julia: [stream(julia), "    "],
  kotlin: [stream(kotlin), "    "],
  lua: [stream(lua), "  "],
  perl: [stream(perl), "    "],
  r: [stream(r), "  "],
  ruby: [stream(ruby), "  "],
  rust: [stream(rust), "    "],
  scala: [stream(scala), "  "],
};

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.modifier, tags.operatorKeyword], color: "var(--code-keyword)" },
  { tag: [tags.string, tags.special(tags.string), tags.regexp], color: "var(--code-string)" },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], color: "var(--code-number)" },
  { tag: tags.comment, color: "var(--code-comment)", fontStyle: "italic" },
  { tag: [tags.function(tags.variableName), tags.function(tags.propertyName)], color: "var(--code-function)" },
  { tag: [tags.typeName, tags.className, tags.namespace], color: "var(--code-type)" },
  { tag: [tags.definition(tags.variableName), tags.propertyName], color: "var(--text)" },
  { tag: tags.invalid, color: "var(--danger)" },
]);

const theme = EditorView.theme({
  "&": { height: "100%", color: "var(--text)", backgroundColor: "transparent", fontSize: "var(--code-size)" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.6", overflow: "auto" },
  ".cm-content": { padding: "12px 0", caretColor: "var(--accent)" },
  ".cm-line": { padding: "0 16px 0 8px" },
  ".cm-gutters": { color: "var(--faint)", backgroundColor: "transparent", border: "none", paddingLeft: "8px" },
  ".cm-lineNumbers .cm-gutterElement": { minWidth: "2.4em" },
  ".cm-activeLine": { backgroundColor: "transparent" },
  "&.cm-focused .cm-activeLine": { backgroundColor: "var(--active-line)" },
  "&.cm-focused .cm-activeLineGutter": { color: "var(--text)", backgroundColor: "transparent" },
  ".cm-activeLineGutter": { backgroundColor: "transparent" },
  ".cm-cursor": { borderLeftColor: "var(--accent)", borderLeftWidth: "2px" },
  ".cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground": {
    backgroundColor: "var(--selection)",
  },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "var(--match)", outline: "1px solid var(--line-strong)" },
  "&.cm-focused .cm-nonmatchingBracket": { color: "var(--danger)", backgroundColor: "transparent" },
  ".cm-specialChar": { color: "var(--danger)" },
});

/**
 * Puts an editor into `host`. `onRun` is called for Ctrl-Enter and Cmd-Enter, `onChange` after every change.
 */
export function createEditor({ host, labels, onRun, onChange }) {
  const root = host.attachShadow({ mode: "open" });
  const language = new Compartment();
  const run = () => {
    onRun();
    return true;
  };
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      extensions: [
        keymap.of([
          { key: "Mod-Enter", run },
          { key: "Ctrl-Enter", run },
          ...closeBracketsKeymap, ...defaultKeymap, ...historyKeymap, indentWithTab,
        ]),
        lineNumbers(),
        highlightSpecialChars(),
        history(),
        drawSelection(),
        indentOnInput(),
        bracketMatching(),
        closeBrackets(),
        highlightActiveLine(),
        highlightActiveLineGutter(),
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ "aria-label": labels.name, "aria-description": labels.description, tabindex: "0" }),
        EditorView.updateListener.of((update) => update.docChanged && onChange()),
        syntaxHighlighting(colours),
        theme,
        language.of([]),
      ],
    }),
  });
  return {
    text: () => view.state.doc.toString(),
    setText: (text) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } }),
    focus: () => view.focus(),
    /** Takes the first of the names that it knows; a language that it does not know is plain text. */
    setLanguage(names) {
      const known = names.find((name) => Object.hasOwn(languages, name));
      const [make, unit] = known ? languages[known] : [() => [], "  "];
      view.dispatch({ effects: language.reconfigure([make(), indentUnit.of(unit)]) });
    },
  };
}
