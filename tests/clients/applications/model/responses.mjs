// OpenAI's Responses.

import { events, json, newId, result } from "./wire.mjs";

export const serves = (path) => path.endsWith("/responses");

const KINDS = { input_text: "text", output_text: "text", text: "text", input_image: "picture" };

export function read({ tools = [], input }) {
  const items = typeof input === "string" ? [] : input;
  return {
    tools: tools.flatMap((tool) => flat(tool)),
    results: items.filter(({ type, call_id }) => type === "function_call_output" && call_id.startsWith("call_"))
      .map(({ output }) => result(output, ({ type }) => KINDS[type] ?? type)),
  };
}

// Tools of one server may come as a namespace, and calls then name it.
function flat({ type, name, parameters, tools }, namespace) {
  if (type === "namespace") return tools.flatMap((tool) => flat(tool, name));
  return name ? [{ name, namespace, schema: parameters }] : [];
}

export function write(response, { call, text }, { model, stream }) {
  const item = call
    ? {
        type: "function_call", id: `fc_${call.id}`, call_id: call.id, name: call.tool.name,
        namespace: call.tool.namespace, arguments: JSON.stringify(call.arguments), status: "completed",
      }
    : {
        type: "message", id: newId("msg"), role: "assistant", status: "completed",
        content: [{ type: "output_text", text, annotations: [] }],
      };
  const usage = { input_tokens: 1, input_tokens_details: { cached_tokens: 0 }, output_tokens: 1,
    output_tokens_details: { reasoning_tokens: 0 }, total_tokens: 2 };
  const id = newId("resp");
  const whole = (status, output) => ({ id, object: "response", created_at: 0, model, status, output, usage,
    error: null, incomplete_details: null, instructions: null, metadata: {}, parallel_tool_calls: false, tools: [],
    tool_choice: "auto", temperature: 1, top_p: 1 });
  if (!stream) return json(response, whole("completed", [item]));
  const pieces = call ? argumentEvents(item) : textEvents(item);
  events(response, [
    ["response.created", { response: whole("in_progress", []) }],
    ["response.output_item.added", { output_index: 0, item: begun(item) }],
    ...pieces,
    ["response.output_item.done", { output_index: 0, item }],
    ["response.completed", { response: whole("completed", [item]) }],
  ].map(([type, data], sequence_number) => [type, { type, sequence_number, ...data }]));
}

function begun(item) {
  const empty = item.type === "message" ? { content: [] } : { arguments: "" };
  return { ...item, ...empty, status: "in_progress" };
}

function argumentEvents({ id, arguments: all }) {
  const place = { item_id: id, output_index: 0 };
  return [
    ["response.function_call_arguments.delta", { ...place, delta: all }],
    ["response.function_call_arguments.done", { ...place, arguments: all }],
  ];
}

function textEvents({ id, content: [part] }) {
  const place = { item_id: id, output_index: 0, content_index: 0 };
  return [
    ["response.content_part.added", { ...place, part: { ...part, text: "" } }],
    ["response.output_text.delta", { ...place, delta: part.text, logprobs: [] }],
    ["response.output_text.done", { ...place, text: part.text, logprobs: [] }],
    ["response.content_part.done", { ...place, part }],
  ];
}
