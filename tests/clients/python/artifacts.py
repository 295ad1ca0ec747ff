"""Starts the server as docs/moving.md configures it for clients of `sandbox_run_python`, and works as those do.

Usage: artifacts.py CONFIGURATION, a file with the documented block; the program that it names is found in PATH, and
SANDBOX_ROOT is in the environment.
"""

import asyncio
import base64
import json
import os
import sys
from pathlib import Path

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

SALES = b"month,revenue\nJan,100\nFeb,150\n"
PLOT = """
import pandas as pd
import matplotlib.pyplot as plt
df = pd.read_csv('/mnt/data/sales.csv')
print(df['revenue'].sum())
df.groupby('month')['revenue'].sum().plot(kind='bar')
plt.savefig('/mnt/data/chart.png')
"""


def server() -> StdioServerParameters:
    entry = json.loads(Path(sys.argv[1]).read_text())["mcpServers"]["code-sandbox"]
    assert entry.keys() == {"command", "args", "env"}, entry
    ours = {name: os.environ[name] for name in ("PATH", "HOME", "SANDBOX_ROOT", "DISK_FREE_FLOOR")}
    entry["env"] |= ours | {"POOL_SIZE": "0"}
    return StdioServerParameters(**entry)


async def main() -> None:
    async with Client(stdio_client(server())) as client:

        async def call(name: str, **arguments) -> dict:
            result = await client.call_tool(f"sandbox_{name}", arguments)
            assert json.loads(result.content[0].text) == result.structured_content, result
            return result.structured_content

        tools = {tool.name for tool in (await client.list_tools()).tools}
        verbs = ("run_python", "upload_file", "read_artifact", "list_artifacts", "close_session")
        assert tools == {f"sandbox_{verb}" for verb in verbs}, tools
        content = base64.b64encode(SALES).decode()
        uploaded = await call("upload_file", filename="sales.csv", content_base64=content)
        session = uploaded["session_id"]
        assert session.startswith("sess_") and uploaded["path"] == "/mnt/data/sales.csv", uploaded
        ran = await call("run_python", session_id=session, code=PLOT)
        assert ran["exit_code"] == 0 and ran["stdout"] == "250\n" and ran["stderr"] == "", ran
        assert [artifact["path"] for artifact in ran["artifacts"]] == ["/mnt/data/chart.png"], ran
        chart = await call("read_artifact", session_id=session, path="/mnt/data/chart.png")
        assert chart["mime_type"] == "image/png", chart
        assert base64.b64decode(chart["content_base64"]).startswith(b"\x89PNG"), chart
        listed = await call("list_artifacts", session_id=session)
        assert {artifact["filename"] for artifact in listed["artifacts"]} == {"chart.png", "sales.csv"}, listed
        again = await call("upload_file", session_id=session, filename="sales.csv", content_base64=content)
        assert again["error"] == "file_exists", again
        assert await call("close_session", session_id=session) == {"status": "closed"}
        assert (await call("list_artifacts", session_id=session))["error"] == "session_not_found"


asyncio.run(asyncio.wait_for(main(), 120))
