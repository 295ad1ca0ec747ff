"""The official SDK logs in by itself: it finds the issuer, registers, asks a person, and gets another token.

The person is this program, which fills in the forms of the issuer of these tests, or the page of the server itself
where that issues tokens (LOGIN=builtin).
"""

import asyncio
import os
import re
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx2
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata

URL = os.environ["MCP_URL"] + "/mcp"
CALLBACK = "http://127.0.0.1:1/callback"
BUILTIN = os.environ.get("LOGIN") == "builtin"


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


class Person:
    """Logs in under a name and agrees to everything."""

    def __init__(self, name):
        self.name = name
        self.result = None

    async def visit(self, address):
        async with httpx2.AsyncClient() as browser:
            answer = await browser.get(address)
            for _ in range(10):
                if answer.is_redirect:
                    address = urljoin(str(answer.url), answer.headers["location"])
                    if address.startswith(CALLBACK):
                        query = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
                        self.result = AuthorizationCodeResult(
                            code=query["code"], state=query.get("state"), iss=query.get("iss")
                        )
                        return
                    answer = await browser.get(address)
                    continue
                target, fields = self.fill_in(answer.text)
                answer = await browser.post(urljoin(str(answer.url), target), data=fields)
            raise AssertionError("the forms have no end")

    def fill_in(self, page):
        """Where a form goes, and its fields."""
        form = re.search(r'<form(?:[^>]*action="([^"]+)")?', page)
        hidden = re.search(r'name="(prompt|nonce)" value="(\w+)"', page)
        assert form and hidden, page
        if hidden[1] == "nonce":
            return "", {"nonce": hidden[2], "token": os.environ["MCP_API_TOKEN"]}
        return form[1], {"prompt": hidden[2], "login": self.name, "password": "any"}

    async def came_back(self):
        return self.result


def provider(name):
    person, storage = Person(name), Storage()
    metadata = OAuthClientMetadata(
        client_name="test", redirect_uris=[CALLBACK], grant_types=["authorization_code", "refresh_token"]
    )
    auth = OAuthClientProvider(URL, metadata, storage, person.visit, person.came_back)
    return auth, storage


@asynccontextmanager
async def session_of(auth):
    async with httpx2.AsyncClient(auth=auth) as http, streamable_http_client(URL, http_client=http) as streams:
        async with ClientSession(streams[0], streams[1]) as session:
            await session.initialize()
            yield session


async def main():
    auth, storage = provider("anna")
    async with session_of(auth) as session:
        found = [tool.name for tool in (await session.list_tools()).tools]
        assert "run_code" in found, found
        first = storage.tokens.access_token
        assert first.startswith("mcs_at_") if BUILTIN else first.count(".") == 2, "the issuer gives out JWTs"
        # In the middle of the session it has to get another token.
        auth.context.token_expiry_time = 1
        again = [tool.name for tool in (await session.list_tools()).tools]
        assert again == found
        assert storage.tokens.access_token != first
    print("logged in, found", len(found), "tools, and went on with another token")


asyncio.run(main())
