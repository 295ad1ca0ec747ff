"""An MCP session as a tool of google-genai, with a scripted model on loopback that calls it once."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from google import genai

from kept import compare, each_set, session


class Model(BaseHTTPRequestHandler):
    """Asks for the call that it was made for, and says what came of it."""

    call: tuple[str, dict]
    requests: list[dict]

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.requests.append(request)
        [*_, last] = request["contents"]
        [*_, part] = last["parts"]
        if "functionResponse" in part:
            answer = {"text": json.dumps(part["functionResponse"]["response"])}
        else:
            name, arguments = self.call
            answer = {"functionCall": {"name": name, "args": arguments}}
        content = {"role": "model", "parts": [answer]}
        body = json.dumps({"candidates": [{"content": content, "finishReason": "STOP"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


async def check(url: str, name: str, arguments: dict[str, Any]) -> None:
    model = type("Scripted", (Model,), {"call": (name, arguments), "requests": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), model) as listener:
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        options = {"base_url": f"http://127.0.0.1:{listener.server_port}"}
        client = genai.Client(api_key="none", http_options=options)
        async with session(url) as tools:
            published = {tool.name: tool.inputSchema for tool in (await tools.list_tools()).tools}
            answer = await client.aio.models.generate_content(
                model="gemini-2.5-flash", contents="What is 6 * 7?", config={"tools": [tools]}
            )
        listener.shutdown()
    assert r"42\n" in answer.text, answer
    declared = [tool for tool in model.requests[0]["tools"] if "functionDeclarations" in tool]
    shown = {each["name"]: each["parameters"] for tool in declared for each in tool["functionDeclarations"]}
    assert shown.keys() == published.keys()
    for tool, schema in published.items():
        compare(schema, shown[tool], maps=False)


each_set(check)
