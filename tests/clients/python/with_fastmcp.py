"""Answers as objects that fastmcp makes of the schemas of answers.

Usage: with_fastmcp.py, with MCP_URL and MCP_API_TOKEN in the environment.
"""

import asyncio
import os

from fastmcp import Client
from fastmcp.client.auth import BearerAuth

CODE = "open('a.txt', 'w').write('x')\nprint(6 * 7)"


async def main() -> None:
    async with Client(f"{os.environ['MCP_URL']}/mcp", auth=BearerAuth(os.environ["MCP_API_TOKEN"])) as client:
        run = (await client.call_tool("run_code", {"language": "python", "code": CODE})).data
        assert type(run).__name__ == "RunOutcome", run
        assert (run.success, run.status, run.exitCode, run.stdout) == (True, "ok", 0, "42\n"), run
        assert isinstance(run.durationMs, int) and run.truncated.stdout == 0 and run.usage.wallMs > 0, run
        assert [(file.name, file.size, file.new) for file in run.files] == [("a.txt", 1, True)], run
        files = (await client.call_tool("list_files", {"conversationId": run.conversationId})).data
        assert [file.name for file in files.files] == ["a.txt"], files
        runners = (await client.call_tool("list_runners", {})).data
        assert any(runner.language == "python" and runner.stateful for runner in runners.runners), runners
        assert runners.limits.memoryBytes > 0 and runners.unavailable is None, runners
        arguments = {"language": "cobol", "code": ""}
        failure = await client.call_tool("run_code", arguments, raise_on_error=False)
        assert failure.is_error and failure.structured_content["code"] == "unknown_language", failure


asyncio.run(asyncio.wait_for(main(), 60))
