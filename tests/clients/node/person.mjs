#!/usr/bin/env node
// A person with a browser, who logs in where a client sends them, and agrees to everything:
//
//   person.mjs ADDRESS
//
// At an issuer of these tests they are anna; into the page of the server itself they paste MCP_API_TOKEN. The address to
// which the browser is sent back is printed, and asked for, since some clients wait there for it.

// What is typed into the fields that are empty.
const TYPED = { login: "anna", password: "any", token: process.env.MCP_API_TOKEN };
const MOST_PAGES = 20;

const cookies = new Map();
let address = new URL(process.argv[2]);

async function load(options = {}) {
  const cookie = [...cookies].map((pair) => pair.join("=")).join("; ");
  const headers = { cookie, origin: address.origin };
  const answer = await fetch(address, { headers, redirect: "manual", ...options });
  for (const cookie of answer.headers.getSetCookie()) {
    const [, name, value] = cookie.match(/^([^=]+)=([^;]*)/);
    cookies.set(name, value);
  }
  return answer;
}

// Fills in the form of a page and sends it.
async function fillIn(answer) {
  const page = await answer.text();
  const [, form, inside] = page.match(/<form([^>]*)>(.*?)<\/form>/s) ?? [];
  if (!answer.ok || !inside) throw new Error(`${address} has the status ${answer.status} and no form: ${page}`);
  const read = (tag, name) => tag.match(new RegExp(`\\s${name}="([^"]*)"`))?.[1];
  const fields = [...inside.matchAll(/<input[^>]*>/g)].map(([tag]) => [read(tag, "name"), read(tag, "value")]);
  const named = fields.filter(([name]) => name).map(([name, value]) => [name, value || TYPED[name] || ""]);
  address = new URL(read(form, "action") ?? "", address);
  return load({ method: "POST", body: new URLSearchParams(named) });
}

let answer = await load();
for (let pages = 0; pages < MOST_PAGES; pages += 1) {
  const location = answer.headers.get("location");
  if (!location) {
    answer = await fillIn(answer);
    continue;
  }
  const next = new URL(location, address);
  if (next.origin !== address.origin) {
    console.log(next.href);
    await fetch(next).catch(() => "nobody waits there");
    process.exit(0);
  }
  address = next;
  answer = await load();
}
throw new Error("the pages have no end");
