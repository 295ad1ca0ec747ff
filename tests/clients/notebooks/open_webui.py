"""What Open WebUI sends to a Jupyter server, by the module of its own that does so, for its Run button and its code
interpreter. With MCP_URL of a server that has DIALECTS=jupyter, and MCP_API_TOKEN, in the environment, and as argument
the directory of the wheel, which is far too large to be installed. With a further argument `patient`, runs a cell that
takes longer than its patience, and nothing else.
"""

import asyncio
import base64
import json
import os
import struct
import sys
import types
import urllib.request
import zipfile
from pathlib import Path

BASE = f"{os.environ['MCP_URL']}/jupyter"
TOKEN = os.environ["MCP_API_TOKEN"]
MODULE = "open_webui/utils/code_interpreter.py"


def module(name, **contents):
    made = types.ModuleType(name)
    made.__dict__.update(contents)
    sys.modules[name] = made


def load(directory):
    """The module, with as much of the application as it imports."""
    module("open_webui", __path__=[])
    module("open_webui.env", AIOHTTP_CLIENT_ALLOW_REDIRECTS=False)
    module("open_webui.utils", __path__=[])
    module("open_webui.utils.json_codec", JSONCodec=json)
    [wheel] = Path(directory).glob("open_webui-*.whl")
    loaded = types.ModuleType("code_interpreter")
    exec(zipfile.ZipFile(wheel).read(MODULE), loaded.__dict__)
    return loaded.execute_code_jupyter


async def main():
    execute, before = load(sys.argv[1]), kernels()

    async def run(code, timeout=60, base=BASE):
        return await execute(base, code, TOKEN, "", timeout)

    if "patient" in sys.argv:
        # Longer than its patience, which counts from message to message.
        patient = await run("import time; time.sleep(70); 'woken'")
        assert patient["result"] == "'woken'", patient
        return

    async def check(code, expected):
        result = await run(code)
        assert result == expected, (code, result)

    await check("print(1)\n6*7", {"stdout": "1", "stderr": "", "result": "42"})
    await check("import sys; print('w', file=sys.stderr)", {"stdout": "", "stderr": "w", "result": ""})

    failed = await run("print('before')\n1 / 0")
    assert failed["stdout"] == "before", failed
    assert "ZeroDivisionError: division by zero" in failed["stderr"], failed

    figure = await run("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()")
    assert figure["result"].startswith("data:image/png;base64,"), figure

    noise = "import numpy\nfrom PIL import Image\nImage.fromarray(numpy.random.randint(0, 255, (1500, 2000, 3), 'uint8'))"
    picture = await run(noise)
    assert picture["result"].startswith("data:image/png;base64,"), (picture["stderr"], picture["result"][:200])
    width, height = struct.unpack(">II", base64.b64decode(picture["result"].split(",", 1)[1])[16:24])
    assert width > 300 and height > 200, (width, height)

    flood = await run("print('x' * 5_000_000)")
    assert len(flood["stdout"]) > 500_000 and "left out" in flood["stderr"], flood["stderr"][-500:]

    guarded = "import builtins\n_import = builtins.__import__\ndef guard(name, *a, **k):\n    if name == 'socket':\n" \
        "        raise ImportError('blocked')\n    return _import(name, *a, **k)\nbuiltins.__import__ = guard\n40 + 2"
    await check(guarded, {"stdout": "", "stderr": "", "result": "42"})

    # Its files are there for the next one only in a workspace.
    shared = f"{BASE}/w/team"
    await run("open('kept.txt', 'w').write('k'); x = 1", base=shared)
    kept = await run("print(open('kept.txt').read()); 'x' in globals()", base=shared)
    assert kept == {"stdout": "k", "stderr": "", "result": "False"}, kept
    gone = await run("import os; os.path.exists('kept.txt')")
    assert gone["result"] == "False", gone

    # It gives up after two seconds without a message, and is sent one every fifteen: the cell ends with its kernel.
    late = await run("import time; time.sleep(600)", timeout=2)
    assert "timed out" in json.dumps(late).lower() or late["stderr"], late

    assert kernels() == before


def kernels():
    request = urllib.request.Request(f"{BASE}/api/kernels", headers={"Authorization": f"token {TOKEN}"})
    return json.load(urllib.request.urlopen(request))


asyncio.run(main())
