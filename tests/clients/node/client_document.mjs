// The host of a client, where the document about it is:
//
//   client_document.mjs ADDRESS KEY CERTIFICATE
import { readFileSync } from "node:fs";
import { createServer } from "node:https";

const [address, key, cert] = process.argv.slice(2);
const document = {
  client_id: address,
  client_name: "a client with a document",
  redirect_uris: ["http://127.0.0.1:1/callback", "http://localhost/oauth/callback"],
  grant_types: ["authorization_code", "refresh_token"],
  token_endpoint_auth_method: "none",
};
const server = createServer({ key: readFileSync(key), cert: readFileSync(cert) }, (request, answer) => {
  answer.setHeader("content-type", "application/json");
  answer.end(JSON.stringify(document));
});
server.listen(443, new URL(address).hostname);
