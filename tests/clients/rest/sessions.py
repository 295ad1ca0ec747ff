"""Sessions over HTTP, in the order in which programs for older servers use them, and what these read in the answers.

Usage: sessions.py, with MCP_URL and MCP_API_TOKEN in the environment.
"""

import base64
import json
import os
import time
from collections.abc import Iterator

import requests

API = f"{os.environ['MCP_URL']}/api/v1"
HEADERS = {"Authorization": f"Bearer {os.environ['MCP_API_TOKEN']}"}
SESSION = "moved-here"


def call(method: str, path: str, status: int = 200, **options) -> dict:
    response = requests.request(method, API + path, headers=HEADERS, timeout=60, **options)
    assert response.status_code == status, (method, path, response.status_code, response.text)
    return response.json()


def stream(code: str, **request) -> Iterator[dict]:
    """The lines of a program, as they arrive, without those that only keep the connection alive."""
    body = {"code": code, **request}
    with requests.post(f"{API}/execute", json=body, headers=HEADERS, stream=True, timeout=60) as response:
        assert response.status_code == 200, response.text
        assert response.headers["content-type"].startswith("application/x-ndjson"), response.headers
        for line in response.iter_lines(chunk_size=None):
            message = json.loads(line)
            if message.get("text") != "":
                yield message


def texts(messages: list[dict]) -> str:
    return "".join(message.get("text", "") for message in messages)


def errors(messages: list[dict]) -> list[dict]:
    return [message for message in messages if "error" in message]


def is_png(image: str) -> bool:
    return base64.b64decode(image, validate=True).startswith(b"\x89PNG")


def health() -> None:
    anonymous = requests.get(f"{API}/health", timeout=60).json()
    assert anonymous["status"] == "healthy" and anonymous["version"], anonymous
    assert anonymous["active_sessions"] is None and anonymous["uptime"] is None, anonymous
    known = call("GET", "/health")
    assert known["status"] == "healthy" and known["active_sessions"] >= 0 and known["uptime"] > 0, known


def create() -> None:
    assert SESSION not in call("GET", "/sessions")["sessions"]
    answer = call("POST", "/sessions", json={"session_id": SESSION, "file_urls": ["http://127.0.0.1:9/x.csv"]})
    assert answer["resultCode"] == 0 and answer["resultMsg"] == "success", answer
    created = answer["data"]
    assert created["session_id"] == SESSION and created["working_directory"] == "/data", created
    assert created["downloaded_files"] == [] and len(created["errors"]) == 1, created


def execute() -> None:
    arrived = []
    for message in stream("import time\nprint('begun', flush=True)\ntime.sleep(2)\nprint('done')", session_id=SESSION):
        arrived.append((time.monotonic(), message))
    messages = [message for _, message in arrived]
    assert texts(messages) == "begun\ndone\n" and errors(messages) == [], messages
    assert arrived[-1][0] - arrived[0][0] > 1, "the first line came while the program ran"
    assert messages[-1]["result"]["status"] == "ok", messages

    # A picture, a value without print, variables of the request and of earlier programs.
    plot = "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3], [1, 4, 9])\nplt.show()\nprint('plotted')"
    messages = list(stream(plot, session_id=SESSION))
    [picture] = [message for message in messages if "image" in message]
    assert picture["format"] == "png" and is_png(picture["image"]), messages
    assert texts(messages) == "plotted\n", messages
    messages = list(stream("kept = factor * 2", session_id=SESSION, variables={"factor": 21}))
    assert errors(messages) == [], messages
    assert texts(list(stream("kept", session_id=SESSION))).strip() == "42"


def fail() -> None:
    """An error has a line of its own, and its traceback is nowhere else; with a session and without one."""
    for session in ({"session_id": SESSION}, {}):
        messages = list(stream("print('before')\nundefined_name\nprint('after')", **session))
        [error] = errors(messages)
        assert error["error"] == "NameError: name 'undefined_name' is not defined", error
        assert any("undefined_name" in line for line in error["traceback"]), error
        assert texts(messages) == "before\n", messages


def execute_sync() -> None:
    answer = call("POST", "/execute_sync", json={"code": "print(kept)\nkept + 1", "session_id": SESSION, "timeout": 20})
    assert answer["resultCode"] == 0 and answer["resultMsg"] == "success", answer
    data = answer["data"]
    assert "".join(data["texts"]).split() == ["42", "43"] and data["images"] == [] and data["errors"] == [], data
    data = call("POST", "/execute_sync", json={"code": "6 * 7"})["data"]
    assert "".join(data["texts"]).strip() == "42", data
    data = call("POST", "/execute_sync", json={"code": "1 / 0", "session_id": SESSION})["data"]
    assert [error["error"] for error in data["errors"]] == ["ZeroDivisionError: division by zero"], data
    assert isinstance(data["errors"][0]["traceback"], list) and data["texts"] == [], data


def interrupt() -> None:
    """While a program runs, its session is busy; an interrupt ends the program and nothing else."""
    code = "import time\nprint('waiting', flush=True)\nwhile True: time.sleep(0.1)"
    messages = []
    for message in stream(code, session_id=SESSION):
        messages.append(message)
        if message.get("text") == "waiting\n":
            assert call("GET", "/sessions")["sessions"][SESSION]["is_busy"] is True
            assert SESSION in call("POST", f"/sessions/{SESSION}/interrupt")["message"]
    [error] = errors(messages)
    assert error["error"] and error["traceback"][-1].startswith("KeyboardInterrupt"), messages
    assert texts(messages) == "waiting\n", messages
    assert texts(list(stream("print(kept)", session_id=SESSION))) == "42\n"


def read() -> None:
    listed = call("GET", "/sessions")
    assert listed["total"] == len(listed["sessions"]), listed
    entry = listed["sessions"][SESSION]
    assert entry["execution_count"] == 9 and entry["is_busy"] is False, entry
    assert 0 < entry["created_at"] <= entry["last_activity"] <= time.time() + 1, entry
    list(stream("open('table.csv', 'w').write('a,b')", session_id=SESSION))
    detail = call("GET", f"/sessions/{SESSION}")
    assert detail["execution_count"] == 10 and detail["working_directory"] == "/data", detail
    assert detail["total_files"] == len(detail["files"]) and "table.csv" in json.dumps(detail["files"]), detail


def delete() -> None:
    assert SESSION in call("DELETE", f"/sessions/{SESSION}")["message"]
    assert SESSION not in call("GET", "/sessions")["sessions"]
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/interrupt")):
        call(method, f"/sessions/{SESSION}{path}", status=404)


for step in (health, create, execute, fail, execute_sync, interrupt, read, delete):
    print(step.__name__, flush=True)
    step()
