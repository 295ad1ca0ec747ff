// Making elements. Whatever comes from outside goes through here, as text and never as markup.

/** The element with an id of index.html. */
export const byId = (id) => document.getElementById(id);

/** An element with properties and children. A child that is a string becomes text. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** One of the icons of index.html. */
export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `#icon-${name}`);
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  svg.append(use);
  return svg;
}

/** Makes a change, and gives the focus to `next` if what had it in `place` is gone or hidden then. */
export function keepFocus(place, next, change) {
  const had = place.contains(document.activeElement);
  change();
  const { activeElement, body } = document;
  if (had && (activeElement === body || !activeElement.checkVisibility())) next.focus();
}

/** Opens a dialog, which its buttons marked data-close close, and a click beside it while one of them is there. */
export function openDialog(dialog) {
  if (!dialog.dataset.ready) {
    dialog.dataset.ready = "yes";
    for (const button of dialog.querySelectorAll("[data-close]")) button.onclick = () => dialog.close();
    dialog.addEventListener("click", (event) => {
      if (event.target === dialog && dialog.querySelector("[data-close]:not([hidden])")) dialog.close();
    });
  }
  if (!dialog.open) dialog.showModal();
}
