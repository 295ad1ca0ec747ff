// Adds the bearer token to requests, for a test suite that has no option for one.
// Usage: forward.mjs, with MCP_URL and MCP_API_TOKEN in the environment; prints its own address.

import http from "node:http";

const target = new URL(process.env.MCP_URL);
const forwarder = http.createServer((request, response) => {
  const headers = { ...request.headers, authorization: `Bearer ${process.env.MCP_API_TOKEN}` };
  const options = { host: target.hostname, port: target.port, path: request.url, method: request.method, headers };
  const onward = http.request(options, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
  });
  onward.on("error", () => response.destroy());
  response.on("close", () => onward.destroy());
  request.pipe(onward);
});
forwarder.listen(0, "127.0.0.1", () => console.log(`http://localhost:${forwarder.address().port}`));
