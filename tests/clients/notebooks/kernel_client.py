"""The kernel client of Datalayer. By the newer protocol of the WebSocket its frames are written and read by its own
functions: version 1.0.2 itself fails at the first message that it gets there. With MCP_URL of a server that has
DIALECTS=jupyter, and MCP_API_TOKEN, in the environment.
"""

import json
import os

import requests
import websocket
from jupyter_client.session import Session
from jupyter_kernel_client import JupyterKernelClient
from jupyter_kernel_client.utils import deserialize_msg_from_ws_v1, serialize_msg_to_ws_v1

ADDRESS, TOKEN = f"{os.environ['MCP_URL']}/jupyter", os.environ["MCP_API_TOKEN"]
V1 = "v1.kernel.websocket.jupyter.org"


def by_the_client():
    with JupyterKernelClient(server_url=ADDRESS, token=TOKEN) as kernel:
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


def in_parts():
    made = requests.post(f"{ADDRESS}/api/kernels", headers={"Authorization": f"token {TOKEN}"}, timeout=30)
    kernel = f"{ADDRESS}/api/kernels/{made.json()['id']}"
    address = f"{kernel.replace('http', 'ws', 1)}/channels?token={TOKEN}"
    socket = websocket.create_connection(address, subprotocols=[V1], timeout=60)
    assert socket.getsubprotocol() == V1
    session = Session()
    request = session.msg("execute_request", {"code": "print('out')\n6 * 7"})
    socket.send_binary(serialize_msg_to_ws_v1(request, "shell", session.pack))
    kinds = []
    while kinds[-2:] != ["execute_reply", "status"]:
        _, parts = deserialize_msg_from_ws_v1(socket.recv())
        header, parent = json.loads(parts[0]), json.loads(parts[1])
        assert parent["msg_id"] == request["header"]["msg_id"], parts
        kinds.append(header["msg_type"])
    assert kinds == ["status", "execute_input", "stream", "execute_result", "execute_reply", "status"], kinds
    socket.close()
    requests.delete(kernel, headers={"Authorization": f"token {TOKEN}"}, timeout=30).raise_for_status()


by_the_client()
in_parts()
