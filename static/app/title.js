// The title of the tab, which tells those who wait in another one: how the run stands, and where.

const PAGE = document.title;
const shown = { state: "", name: "" };

/** Shows another `state`, the word for how the run stands, or another `name`, that of the conversation; either can be empty. */
export function showInTitle(part) {
  Object.assign(shown, part);
  const { state, name } = shown;
  document.title = `${state && `${state} · `}${name && `${name} – `}${PAGE}`;
}
