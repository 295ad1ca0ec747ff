// Links to files: where the page gets them, and what can be shown of them as a picture.

const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/** Where the page gets a file: from its own server, whatever name the server has in links. */
export function address(url) {
  const { pathname, search } = new URL(url);
  const at = pathname.search(/\/files\/[0-9a-f]{64}\//);
  return new URL(`.${pathname.slice(at)}${search}`, document.baseURI).href;
}

/** Where a frame gets it as a page with scripts. */
export const addressInFrame = (url) => address(url).replace(/\/files\/(?=[0-9a-f]{64}\/)/, "/framed/");

/** An address that is used once: browsers show a picture from memory when they have one of the same address. */
export function fresh({ url }) {
  const once = new URL(address(url));
  once.searchParams.set("shown", Date.now());
  return once.href;
}

/** Whether browsers show it as a picture. */
export const isPicture = ({ mimeType }) => PICTURES.includes(mimeType);
