// Tools as n8n's MCP Client Tool makes them: schemas through its converter to zod, and from there to the models.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { DynamicStructuredTool } from "@langchain/core/tools";
import { convertToOpenAITool } from "@langchain/core/utils/function_calling";
import { ChatGoogleGenerativeAI } from "@langchain/google-genai";
import { compare, connected, eachSet, printed } from "./kept.mjs";

// n8n takes it so; as a module of JavaScript it cannot be loaded.
const { jsonSchemaToZod } = createRequire(import.meta.url)("@n8n/json-schema-to-zod");
const gemini = new ChatGoogleGenerativeAI({ model: "gemini-2.5-flash", apiKey: "none" });

await eachSet(async (url, name, args) => {
  const client = await connected(url);
  const { tools } = await client.listTools();
  const made = tools.map((tool) => new DynamicStructuredTool({
    name: tool.name,
    description: tool.description,
    schema: jsonSchemaToZod(tool.inputSchema),
    func: async (given) => (await client.callTool({ name: tool.name, arguments: given })).content[0].text,
  }));
  const { functionDeclarations } = gemini.invocationParams({ tools: made }).tools[0];
  for (const [index, { inputSchema }] of tools.entries()) {
    compare(inputSchema, withoutEnvelope(convertToOpenAITool(made[index]).function.parameters));
    const { parameters } = functionDeclarations[index];
    if (parameters) compare(inputSchema, parameters, { maps: false });
    else assert.deepEqual(inputSchema.properties, {});
  }
  printed(await made.find((tool) => tool.name === name).invoke(args));
  await client.close();
});
process.exit(0);

// zod says of the whole that it is a schema, and that there is nothing else in it.
function withoutEnvelope({ $schema, additionalProperties, ...rest }) {
  return rest;
}
