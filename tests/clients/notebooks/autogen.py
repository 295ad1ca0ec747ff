"""AutoGen's executor of code blocks in a Jupyter server. With MCP_URL of a server that has DIALECTS=jupyter, and
MCP_API_TOKEN, in the environment.
"""

import asyncio
import os
import tempfile
from pathlib import Path

from autogen_core import CancellationToken
from autogen_core.code_executor import CodeBlock
from autogen_ext.code_executors.docker_jupyter import DockerJupyterCodeExecutor
from autogen_ext.code_executors.docker_jupyter._jupyter_server import JupyterConnectionInfo

HOST = os.environ["MCP_URL"].removeprefix("http://")


async def main():
    server = JupyterConnectionInfo(
        host=f"{HOST}/jupyter", use_https=False, port=None, token=os.environ["MCP_API_TOKEN"]
    )
    with tempfile.TemporaryDirectory() as directory:
        executor = DockerJupyterCodeExecutor(jupyter_server=server, output_dir=Path(directory), timeout=60)
        await executor.start()

        async def run(*blocks):
            blocks = [CodeBlock(block, "python") for block in blocks]
            return await executor.execute_code_blocks(blocks, CancellationToken())

        result = await run("x = 20", "print(x + 1)", "x + 2")
        assert (result.exit_code, result.output.split()) == (0, ["21", "22"]), result
        result = await run("1 / 0")
        assert result.exit_code != 0 and "ZeroDivisionError" in result.output, result
        result = await run("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()")
        assert [file.suffix for file in result.output_files] == [".png"], result
        await executor.restart()
        result = await run("x")
        assert "NameError" in result.output, result
        await executor.stop()


asyncio.run(main())
