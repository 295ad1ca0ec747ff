"""The official Python client against a running server, trying one way to connect after another.

Usage: client.py WAY..., or client.py long for a run that takes longer than a client waits; with MCP_URL, MCP_API_TOKEN
and MCP_SERVER in the environment.
"""

import asyncio
import os
import sys
import time

import httpx2
from mcp.client.client import Client
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

URL = os.environ["MCP_URL"]
HEADERS = {"Authorization": f"Bearer {os.environ['MCP_API_TOKEN']}"}
COLD = {"POOL_SIZE": "0", "SANDBOX_REUSE": "never"}
CODE = "import time\nprint('one', flush=True)\ntime.sleep(0.4)\nprint('two', flush=True)\ntime.sleep(0.4)\nprint('three')"


def http() -> httpx2.AsyncClient:
    return httpx2.AsyncClient(headers=HEADERS, timeout=60)


WAYS = {
    "auto": lambda: Client(streamable_http_client(f"{URL}/mcp", http_client=http()), mode="auto"),
    "legacy": lambda: Client(streamable_http_client(f"{URL}/mcp", http_client=http()), mode="legacy"),
    "2026-07-28": lambda: Client(streamable_http_client(f"{URL}/mcp", http_client=http()), mode="2026-07-28"),
    "sse": lambda: Client(sse_client(f"{URL}/sse", headers=HEADERS), mode="legacy"),
    "stdio": lambda: Client(stdio_client(server()), mode="auto"),
    "stdio-legacy": lambda: Client(stdio_client(server()), mode="legacy"),
}


def server() -> StdioServerParameters:
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "SANDBOX_ROOT", "DISK_FREE_FLOOR")} | COLD
    return StdioServerParameters(command=os.environ["MCP_SERVER"], args=["stdio"], env=environment)


async def main(way: str) -> None:
    async with WAYS[way]() as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert {"run_code", "get_run", "cancel_run", "upload_file"} <= tools, tools
        told: list[str] = []
        values: list[float] = []

        async def progress(value: float, total: float | None, message: str | None) -> None:
            values.append(value)
            if message:
                told.append(message)

        arguments = {"language": "python", "code": CODE, "conversationId": f"client-{way}"}
        result = await client.call_tool("run_code", arguments, progress_callback=progress)
        outcome = result.structured_content
        assert outcome["status"] == "ok" and outcome["stdout"] == "one\ntwo\nthree\n", outcome
        assert told[:1] == ["one\n"], told
        assert values == sorted(set(values)), values
        again = await client.call_tool("get_run", {"runId": outcome["runId"]})
        assert again.structured_content["stdout"] == outcome["stdout"]
        wrong = await client.call_tool("run_code", {"language": "cobol", "code": ""})
        assert wrong.is_error, wrong
        templates = await client.list_resource_templates()
        assert templates.resource_templates[0].uri_template.startswith("sandbox://")


LONG = "import time\nopen('times', 'a').write('x')\nfor i in range(90):\n    print(i, flush=True)\n    time.sleep(1)"


async def long_run() -> None:
    """A run of 90 s through a client that gives up on a call after 60 s."""
    async with Client(
        streamable_http_client(f"{URL}/mcp", http_client=http()), mode="legacy", read_timeout_seconds=60
    ) as client:
        arguments = {"language": "python", "code": LONG, "conversationId": "long", "timeoutSeconds": 120}
        begun = time.monotonic()
        answer = (await client.call_tool("run_code", arguments)).structured_content
        assert answer["status"] == "running", answer
        while answer["status"] == "running":
            wait = {"runId": answer["runId"], "waitSeconds": 40}
            answer = (await client.call_tool("get_run", wait)).structured_content
        assert time.monotonic() - begun > 89
        assert answer["status"] == "ok", answer
        assert answer["stdout"] == "".join(f"{i}\n" for i in range(90)), answer
        times = await client.call_tool("read_file", {"conversationId": "long", "filename": "times"})
        assert times.structured_content["content"] == "x", times


for way in sys.argv[1:]:
    print(way, flush=True)
    asyncio.run(asyncio.wait_for(long_run() if way == "long" else main(way), 120))
