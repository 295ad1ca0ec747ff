"""What converters must keep of a tool's arguments, and the servers that they are tried on, one for each set of tools.

Needs MCP_URLS, as "default=http://… artifacts=http://… python=http://…", and MCP_API_TOKEN in the environment.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client

HEADERS = {"Authorization": f"Bearer {os.environ['MCP_API_TOKEN']}"}
CODE = "print(6 * 7)"
# What is called in each set, with what it requires and no more.
CALLS = {
    "default": ("run_code", {"language": "python", "code": CODE}),
    "artifacts": ("sandbox_run_python", {"code": CODE}),
    "python": ("execute_python", {"code": CODE}),
}
# Words that some interface of a model refuses or some converter turns into something else.
FOREIGN = {"$ref", "$defs", "oneOf", "anyOf", "allOf", "const", "exclusiveMinimum", "default", "format", "nullable"}


def compare(published: dict, shown: dict, path: str = "arguments", *, maps: bool = True, strict: bool = False) -> None:
    """Compares what a model is shown with what was published.

    Some interfaces have no way to say what a map contains. Strict ones require every argument.
    """
    assert shown["type"].lower() == published["type"], (path, shown)
    assert not FOREIGN & shown.keys(), (path, shown)
    for keyword in ("description", "enum", "minimum"):
        assert shown.get(keyword) == published.get(keyword), (path, keyword, shown)
    properties = published.get("properties", {})
    assert set(shown.get("properties") or {}) == set(properties), (path, shown)
    required = properties if strict else published.get("required", [])
    assert sorted(shown.get("required") or []) == sorted(required), (path, shown)
    for name, schema in properties.items():
        compare(schema, shown["properties"][name], f"{path}.{name}", maps=maps, strict=strict)
    if "items" in published:
        compare(published["items"], shown["items"], f"{path}[]", maps=maps, strict=strict)
    if maps and "additionalProperties" in published:
        compare(published["additionalProperties"], shown["additionalProperties"], f"{path}.*", strict=strict)


@asynccontextmanager
async def session(url: str):
    async with streamablehttp_client(f"{url}/mcp", headers=HEADERS) as (read, write, _):
        async with ClientSession(read, write) as session:
            await session.initialize()
            yield session


async def published(url: str) -> dict[str, dict]:
    async with session(url) as plain:
        return {tool.name: tool.inputSchema for tool in (await plain.list_tools()).tools}


def each_set(check: Callable[[str, str, dict[str, Any]], Awaitable[None]]) -> None:
    async def all_sets() -> None:
        for entry in os.environ["MCP_URLS"].split():
            toolset, url = entry.split("=", 1)
            print(toolset, flush=True)
            await check(url, *CALLS[toolset])

    asyncio.run(asyncio.wait_for(all_sets(), 60))
