// Tools as LangChain's adapters make them, with the published schemas as they are, and what its Gemini model sends.

import assert from "node:assert/strict";
import { DynamicStructuredTool } from "@langchain/core/tools";
import { ChatGoogleGenerativeAI } from "@langchain/google-genai";
import { compare, connected, eachSet, printed } from "./kept.mjs";

const gemini = new ChatGoogleGenerativeAI({ model: "gemini-2.5-flash", apiKey: "none" });

await eachSet(async (url, name, args) => {
  const client = await connected(url);
  const { tools } = await client.listTools();
  const made = tools.map((tool) => new DynamicStructuredTool({
    name: tool.name,
    description: tool.description,
    schema: tool.inputSchema,
    func: async (given) => (await client.callTool({ name: tool.name, arguments: given })).content[0].text,
  }));
  const { functionDeclarations } = gemini.invocationParams({ tools: made }).tools[0];
  for (const [index, { inputSchema }] of tools.entries()) {
    const { parameters } = functionDeclarations[index];
    if (parameters) compare(inputSchema, parameters, { maps: false });
    else assert.deepEqual(inputSchema.properties, {});
  }
  printed(await made.find((tool) => tool.name === name).invoke(args));
  await client.close();
});
process.exit(0);
