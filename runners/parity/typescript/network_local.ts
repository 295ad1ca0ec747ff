// A server and its client in one program.
const server = Bun.serve({ port: 0, fetch: (request) => new Response("you asked for " + new URL(request.url).pathname) });
console.log(await (await fetch(new URL("/page", server.url))).text());
server.stop(true);
