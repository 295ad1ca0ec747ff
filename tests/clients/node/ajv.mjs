// Every schema compiles in Ajv's strict mode, and answers, those of failures too, are valid by it.

import assert from "node:assert/strict";
import { Ajv2020 } from "ajv/dist/2020.js";
import { connected, eachSet } from "./kept.mjs";

await eachSet(async (url, name, args) => {
  const client = await connected(url);
  const { tools } = await client.listTools();
  const ajv = new Ajv2020({ strict: true, allErrors: true });
  const schemas = tools.map((tool) => ({
    tool: tool.name,
    input: ajv.compile(tool.inputSchema),
    output: tool.outputSchema && ajv.compile(tool.outputSchema),
  }));
  const { input } = schemas.find(({ tool }) => tool === name);
  assert.ok(input(args), JSON.stringify(input.errors));
  assert.ok(!input({}));
  for (const given of [args, {}]) {
    for (const { tool, output } of schemas) {
      if (!output || (given === args && tool !== name)) continue;
      const { structuredContent } = await client.callTool({ name: tool, arguments: given });
      assert.ok(output(structuredContent), `${tool}: ${JSON.stringify(output.errors)}`);
    }
  }
  await client.close();
});
process.exit(0);
