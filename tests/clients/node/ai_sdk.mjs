// Tools as the AI SDK makes them, and the schemas that it hands to its models.

import { createMCPClient } from "@ai-sdk/mcp";
import { compare, connected, eachSet, headers, printed } from "./kept.mjs";

await eachSet(async (url, name, args) => {
  const plain = await connected(url);
  const published = (await plain.listTools()).tools;
  await plain.close();
  const client = await createMCPClient({ transport: { type: "http", url: `${url}/mcp`, headers } });
  const tools = await client.tools();
  for (const tool of published) {
    const { additionalProperties, ...shown } = await tools[tool.name].inputSchema.jsonSchema;
    compare(tool.inputSchema, shown);
  }
  const result = await tools[name].execute(args, { toolCallId: "1", messages: [] });
  printed(result.content[0].text);
  await client.close();
});
process.exit(0);
