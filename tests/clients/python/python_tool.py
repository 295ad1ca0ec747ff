"""The official Python client as vLLM uses it for the Python tool of gpt-oss: an address with the token in it, and no
header. With MCP_URL of a server that has DIALECTS=python_tool, and MCP_API_TOKEN, in the environment.
"""

import asyncio
import os

from mcp import ClientSession
from mcp.client.sse import sse_client

ADDRESS = f"{os.environ['MCP_URL']}/t/{os.environ['MCP_API_TOKEN']}/python"


async def main() -> None:
    async with sse_client(f"{ADDRESS}/sse") as streams, ClientSession(*streams) as session:
        hello = await session.initialize()
        assert hello.server_info.name == "python", hello
        assert "stdout" in (hello.instructions or ""), hello
        [tool] = (await session.list_tools()).tools
        assert tool.name == "python", tool
        result = await session.call_tool("python", {"code": "print(6 * 7)"})
        assert result.content[0].text == "42\n", result
        result = await session.call_tool("python", {"code": "1 / 0"})
        assert "ZeroDivisionError" in result.content[0].text, result


asyncio.run(main())
