"""The kernel client of Datalayer, by both protocols of the WebSocket. With MCP_URL of a server that has
DIALECTS=jupyter, and MCP_API_TOKEN, in the environment.
"""

import os

from jupyter_kernel_client import JupyterKernelClient, JupyterSubprotocol

ADDRESS = f"{os.environ['MCP_URL']}/jupyter"

for protocol in (JupyterSubprotocol.DEFAULT, JupyterSubprotocol.V1):
    settings = {"subprotocol": protocol}
    with JupyterKernelClient(
        server_url=ADDRESS, token=os.environ["MCP_API_TOKEN"], client_kwargs=settings
    ) as kernel:
        assert kernel.kernel_info["language_info"]["name"] == "python", kernel.kernel_info
        reply = kernel.execute("x = 6\nprint('out')\nx * 7")
        kinds = [output["output_type"] for output in reply["outputs"]]
        assert (reply["status"], kinds) == ("ok", ["stream", "execute_result"]), reply
        assert reply["outputs"][1]["data"]["text/plain"] == "42", reply
        failed = kernel.execute("raise ValueError('no such thing')")
        [error] = failed["outputs"]
        assert (error["ename"], error["evalue"]) == ("ValueError", "no such thing"), failed
        kernel.restart()
        assert kernel.execute("x")["outputs"][0]["ename"] == "NameError"
