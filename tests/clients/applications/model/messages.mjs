// Anthropic's Messages.

import { events, json, newId, result } from "./wire.mjs";

export const serves = (path) => path.endsWith("/messages");

const KINDS = { text: "text", image: "picture" };

export function read({ tools = [], messages }) {
  const blocks = messages.flatMap(({ content }) => (typeof content === "string" ? [] : content));
  return {
    tools: tools.map(({ name, input_schema }) => ({ name, schema: input_schema })),
    results: blocks.filter(({ type, tool_use_id }) => type === "tool_result" && tool_use_id.startsWith("call_"))
      .map(({ content }) => result(content ?? "", ({ type }) => KINDS[type] ?? type)),
  };
}

export function write(response, { call, text }, { model, stream }) {
  const block = call
    ? { type: "tool_use", id: call.id, name: call.tool.name, input: call.arguments }
    : { type: "text", text };
  const stop_reason = call ? "tool_use" : "end_turn";
  const usage = { input_tokens: 1, output_tokens: 1 };
  const message = { id: newId("msg"), type: "message", role: "assistant", model, content: [block], stop_reason,
    stop_sequence: null, usage };
  if (!stream) return json(response, message);
  const empty = call ? { ...block, input: {} } : { ...block, text: "" };
  const delta = call
    ? { type: "input_json_delta", partial_json: JSON.stringify(call.arguments) }
    : { type: "text_delta", text };
  events(response, [
    ["message_start", { message: { ...message, content: [], stop_reason: null } }],
    ["content_block_start", { index: 0, content_block: empty }],
    ["content_block_delta", { index: 0, delta }],
    ["content_block_stop", { index: 0 }],
    ["message_delta", { delta: { stop_reason, stop_sequence: null }, usage }],
    ["message_stop", {}],
  ].map(([type, data]) => [type, { type, ...data }]));
}
