"""What is asked of the registry and not taken: counted until it is, so that it has a bound."""

from __future__ import annotations

import asyncio
import json

from starlette.types import Message

from headwater.client.log import Log
from headwater.edges.registry import app as registry_app
from headwater.edges.registry.app import App
from headwater.edges.registry.config import RegistryConfig
from headwater.schemas.store import Store

LARGE = json.dumps({"type": "record", "name": "R", "doc": "x" * 200_000, "fields": []})


class Client:
    """One request by hand; it takes what it is sent once `taking` is set."""

    def __init__(self, app: App, method: str, path: str, body: bytes = b"") -> None:
        self.taking, self.begun, self.status, self.got = asyncio.Event(), asyncio.Event(), 0, b""
        self._body = body
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(b"host", b"127.0.0.1")],
            "client": ("127.0.0.1", 1),
        }
        self.task = asyncio.create_task(app(scope, self._receive, self._send))

    async def _receive(self) -> Message:
        return {"type": "http.request", "body": self._body, "more_body": False}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.begun.set()
            return
        await self.taking.wait()
        self.got += message.get("body", b"")

    async def answered(self) -> int:
        self.taking.set()
        await self.task
        return self.status


async def test_answers_that_nobody_takes_are_bounded_and_others_are_served(kafka: str, monkeypatch):
    monkeypatch.setattr(registry_app, "ANSWERS_BYTES_MAX", 1024**2)
    with Log(kafka) as log, Store(log, "_schemas_untaken") as store:
        app = App(store, RegistryConfig(), loopback_only=True)
        body = json.dumps({"schema": LARGE}).encode()
        new = Client(app, "POST", "/subjects/large/versions", body)
        assert await new.answered() == 200, new.got
        waiting = []
        while len(waiting) < 10:
            each = Client(app, "GET", "/schemas")
            await each.begun.wait()
            if each.status != 200:
                assert (each.status, await each.answered()) == (429, 429)
                break
            waiting.append(each)
        assert 1 <= len(waiting) <= 5, "as many as there is room for"
        assert await Client(app, "GET", "/subjects").answered() == 200, "what is small is answered"
        for each in waiting:
            assert await each.answered() == 200 and b"x" * 200_000 in each.got
        assert await Client(app, "GET", "/schemas").answered() == 200, "and there is room again"
