// OpenAI's Chat Completions.

import { events, json, newId, result } from "./wire.mjs";

export const serves = (path) => path.endsWith("/chat/completions");

const KINDS = { text: "text", image_url: "picture" };

export function read({ tools = [], messages }) {
  return {
    tools: tools.map(({ function: { name, parameters } }) => ({ name, schema: parameters })),
    // Results are text, as OpenAI has it. Pictures may follow in a message of the user's.
    results: messages.reduce((results, { role, content, tool_call_id }) => {
      const seen = result(content ?? "", ({ type }) => KINDS[type] ?? type);
      if (role === "tool" && seen.pictures + seen.others.length > 0) throw new Error("a result has text only");
      if (role === "tool" && tool_call_id?.startsWith("call_")) results.push(seen);
      else if (role === "user" && results.length > 0) results.at(-1).pictures += seen.pictures;
      return results;
    }, []),
  };
}

export function write(response, { call, text }, { model, stream }) {
  const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
  const finish_reason = call ? "tool_calls" : "stop";
  const tool_calls = call && [{
    index: 0,
    id: call.id,
    type: "function",
    function: { name: call.tool.name, arguments: JSON.stringify(call.arguments) },
  }];
  const message = { role: "assistant", content: text ?? null, ...(call && { tool_calls }) };
  const common = { id: newId("chat"), created: 0, model };
  if (!stream) {
    const choices = [{ index: 0, message, finish_reason }];
    return json(response, { ...common, object: "chat.completion", choices, usage });
  }
  const chunk = (choices, usage = null) => ["", { ...common, object: "chat.completion.chunk", choices, usage }];
  events(response, [
    chunk([{ index: 0, delta: message, finish_reason: null }]),
    chunk([{ index: 0, delta: {}, finish_reason }]),
    chunk([], usage),
    ["", "[DONE]"],
  ]);
}
