// Gemini's generateContent.

import { events, json, result } from "./wire.mjs";

export const serves = (path) => /:(stream)?generateContent$/i.test(path);

const isPicture = ({ inlineData }) => inlineData?.mimeType.startsWith("image/");

export function read({ tools = [], contents }) {
  const declarations = tools.flatMap(({ functionDeclarations = [] }) => functionDeclarations);
  return {
    tools: declarations.map(({ name, parameters, parametersJsonSchema }) => (
      { name, schema: parametersJsonSchema ?? parameters }
    )),
    // A picture is a part of the result, or follows it.
    results: contents.flatMap(({ parts = [] }) => parts).reduce((results, part) => {
      if (part.functionResponse) results.push(seen(part.functionResponse));
      else if (isPicture(part) && results.length > 0) results.at(-1).pictures += 1;
      return results;
    }, []),
  };
}

function seen({ response, parts = [] }) {
  const whole = result(JSON.stringify(response), ({ type }) => type);
  whole.pictures = parts.filter(isPicture).length;
  return whole;
}

export function write(response, { call, text }, _body, path) {
  const part = call ? { functionCall: { id: call.id, name: call.tool.name, args: call.arguments } } : { text };
  const answer = {
    candidates: [{ index: 0, content: { role: "model", parts: [part] }, finishReason: "STOP" }],
    usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 },
    modelVersion: "scripted",
  };
  return /stream/i.test(path) ? events(response, [["", answer]]) : json(response, answer);
}
