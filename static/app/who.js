// Who one is for the server, and the way out.

import { byId, make } from "./dom.js";
import { isLoggedIn, logOut } from "./login.js";
import { me } from "./rest.js";
import { visible } from "./text.js";
import { askForToken, withToken } from "./token.js";

const who = byId("who");
const logOutButton = byId("log-out");
const tokenButton = byId("open-token");

const WAYS = {
  token: "by a token",
  login: "by a login with a token",
  issuer: "by a login",
  cloudflare: "by Cloudflare Access",
};

/** Shows which way out there is: what Cloudflare lets in has none here. */
function showWays(isLetIn) {
  logOutButton.hidden = !isLoggedIn();
  tokenButton.hidden = isLoggedIn() || isLetIn;
}

/** Asks the server who calls, and shows it. Nobody has to know to go on. */
export async function showWho() {
  showWays(false);
  try {
    const { tenant, by, name, expiresAt } = await withToken(me);
    showWays(by === "cloudflare");
    const isOfIssuer = by === "issuer" || by === "cloudflare";
    const text = isOfIssuer ? name ?? tenant : [tenant, name].filter(Boolean).join(" / ");
    const until = expiresAt && by === "token" ? `, until ${new Date(expiresAt).toLocaleString()}` : "";
    const title = `Tenant ${tenant}, known ${WAYS[by] ?? ""}${until}`;
    who.replaceChildren(make("span", { className: "hidden" }, "You are "), make("bdi", { title: visible(title) }, visible(text)));
  } catch {
    who.replaceChildren();
  }
}

/** Connects the way out. `onIn` is called when somebody is known again. */
export function connectWho(onIn) {
  showWays(false);
  logOutButton.onclick = async () => {
    let complaint = "";
    try {
      await logOut();
    } catch {
      complaint = "You are logged out on this page. The authorization server could not be told, and may still take the login.";
    }
    who.replaceChildren();
    showWays(false);
    askForToken("", complaint).then(onIn, () => {});
  };
}
