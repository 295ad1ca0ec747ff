"""Tools as the OpenAI Agents SDK makes them, with schemas as they are and in strict mode, which requires everything."""

import json
from typing import Any

from agents import Agent
from agents.mcp import MCPServerStreamableHttp
from agents.mcp.util import MCPUtil
from agents.run_context import RunContextWrapper
from agents.tool_context import ToolContext

from kept import HEADERS, compare, each_set, published


def without_rest(schema: dict) -> dict:
    """The schema of a strict tool, without the word that there is nothing but what it names."""
    schema = dict(schema)
    assert schema.pop("additionalProperties") is False
    return schema


async def check(url: str, name: str, arguments: dict[str, Any]) -> None:
    schemas = await published(url)
    params = {"url": f"{url}/mcp", "headers": HEADERS, "timeout": 30}
    async with MCPServerStreamableHttp(params=params, client_session_timeout_seconds=30) as server:
        for strict in (False, True):
            agent = Agent(name="test", mcp_servers=[server], mcp_config={"convert_schemas_to_strict": strict})
            tools = await MCPUtil.get_function_tools(server, strict, RunContextWrapper(None), agent)
            assert {tool.name for tool in tools} == schemas.keys()
            for tool in tools:
                # A map cannot be strict, nor can nothing: such tools stay as they are.
                can_be = tool.name not in ("run_code", "list_runners")
                assert tool.strict_json_schema == (strict and can_be), tool.name
                shown = tool.params_json_schema
                if tool.strict_json_schema:
                    compare(schemas[tool.name], without_rest(shown), strict=True)
                else:
                    compare(schemas[tool.name], shown)
            [tool] = [tool for tool in tools if tool.name == name]
            given = json.dumps(arguments)
            context = ToolContext(None, tool_name=name, tool_call_id="1", tool_arguments=given)
            answer = await tool.on_invoke_tool(context, given)
            text = next(part["text"] for part in answer if part["type"] == "text") if isinstance(answer, list) else answer["text"]
            assert json.loads(text)["stdout"] == "42\n", answer


each_set(check)
