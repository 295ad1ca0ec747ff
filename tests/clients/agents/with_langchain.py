"""Tools as langchain-mcp-adapters makes them, and what ChatOpenAI sends of them."""

import json
from typing import Any

from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_openai import ChatOpenAI

from kept import HEADERS, compare, each_set, published


async def check(url: str, name: str, arguments: dict[str, Any]) -> None:
    connection = {"transport": "streamable_http", "url": f"{url}/mcp", "headers": HEADERS}
    tools = await MultiServerMCPClient({"sandbox": connection}).get_tools()
    bound = ChatOpenAI(model="gpt-4.1", api_key="none").bind_tools(tools)
    shown = {tool["function"]["name"]: tool["function"]["parameters"] for tool in bound.kwargs["tools"]}
    schemas = await published(url)
    assert shown.keys() == schemas.keys()
    for tool, schema in schemas.items():
        compare(schema, shown[tool])
    [tool] = [tool for tool in tools if tool.name == name]
    call = {"type": "tool_call", "id": "1", "name": name, "args": arguments}
    message = await tool.ainvoke(call)
    text = next(block["text"] for block in message.content if block["type"] == "text")
    assert json.loads(text)["stdout"] == "42\n", message


each_set(check)
