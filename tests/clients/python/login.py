"""The official SDK logs in by itself: it finds out where, makes itself known, sends a person, and gets another token.

With CLIENT_DOCUMENT it makes itself known by the document at that address, where clients otherwise register.
"""

import asyncio
import os
import subprocess
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import httpx2
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata

URL = os.environ["MCP_URL"] + "/mcp"
CLIENT_DOCUMENT = os.environ.get("CLIENT_DOCUMENT")
CALLBACK = "http://127.0.0.1:1/callback"
PERSON = Path(__file__).parent.parent / "node" / "person.mjs"


class Storage:
    """Where the client keeps what it was given."""

    def __init__(self):
        self.tokens = self.client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


def provider():
    storage = Storage()
    metadata = OAuthClientMetadata(
        client_name="test", redirect_uris=[CALLBACK], grant_types=["authorization_code", "refresh_token"]
    )
    came_back = {}

    async def visit(address):
        seen = await asyncio.to_thread(subprocess.check_output, [PERSON, address], text=True)
        came_back.update(parse_qsl(urlsplit(seen.strip()).query))

    async def result():
        return AuthorizationCodeResult(
            code=came_back["code"], state=came_back.get("state"), iss=came_back.get("iss")
        )

    auth = OAuthClientProvider(URL, metadata, storage, visit, result, client_metadata_url=CLIENT_DOCUMENT)
    return auth, storage


@asynccontextmanager
async def session_of(auth):
    async with httpx2.AsyncClient(auth=auth, timeout=60) as http, streamable_http_client(URL, http_client=http) as streams:
        async with ClientSession(streams[0], streams[1]) as session:
            await session.initialize()
            yield session


async def main():
    auth, storage = provider()
    async with session_of(auth) as session:
        found = [tool.name for tool in (await session.list_tools()).tools]
        assert "run_code" in found, found
        assert CLIENT_DOCUMENT in (None, storage.client.client_id), storage.client
        first = storage.tokens.access_token
        # In the middle of the session it has to get another token.
        auth.context.token_expiry_time = 1
        result = await session.call_tool("run_code", {"language": "python", "code": "print(6 * 7)"})
        assert result.structured_content["stdout"] == "42\n", result
        assert storage.tokens.access_token != first
    print("logged in, found", len(found), "tools, and went on with another token")


asyncio.run(main())
