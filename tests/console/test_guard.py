"""The guard around an application of ours: a websocket goes on for as long as its cookie lets somebody in."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from starlette.types import Message, Receive, Scope, Send

from headwater.console.guard import SESSION, STANDS, Guard
from headwater.console.login import COOKIE, Login
from headwater.console.sessions import WHO, Sessions, Token
from headwater.project.roles import Role
from headwater.secrets import Secrets

NOW = 1_800_000_000.0
Act = Callable[["Visitor"], Awaitable[None]]


class Application:
    """What NiceGUI is to the guard: it takes messages until it hears that the visitor has gone."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.scope: Scope = {}
        self.who: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self.who.append(WHO.get())
        if scope["type"] == "http":
            return
        while (message := await receive())["type"] != "websocket.disconnect":
            self.heard.append(message.get("text", message["type"]))


class Visitor:
    """One browser: its websocket, and requests beside it."""

    def __init__(self, folder: Path, look_s: float = 3600.0) -> None:
        self.file = folder / "token"
        self.file.write_text("river")
        self.now = self.seen_at = NOW
        secret = Secrets([f"file:{self.file}"], clock=lambda: self.seen_at)
        self.sessions = Sessions([Token(Role.ADMINISTRATOR, secret)])
        self.cookie = self.sessions.cookie_for("river", NOW) or ""
        self.application, self.ended = Application(), list[str]()
        self.guard = Guard(
            self.application,
            login=Login(self.sessions),
            loopback_only=True,
            on_end=self.ended.append,
            clock=lambda: self.now,
            look_s=look_s,
        )
        self.sent: list[Message] = []
        self._says: asyncio.Queue[Message] = asyncio.Queue()

    def scope(self, kind: str, method: str = "GET", path: str = "/") -> Scope:
        headers = [(b"host", b"localhost"), (b"cookie", f"{COOKIE}={self.cookie}".encode())]
        return {"type": kind, "method": method, "path": path, "headers": headers}

    async def open(self) -> None:
        self.say({"type": "websocket.connect"})
        await self.guard(self.scope("websocket"), self._says.get, self._hear)

    def say(self, message: Message) -> None:
        self._says.put_nowait(message)

    async def request(self, method: str, path: str) -> None:
        await self.guard(self.scope("http", method, path), self._says.get, self._hear)

    async def _hear(self, message: Message) -> None:
        self.sent.append(message)

    def another_token(self) -> None:
        self.file.write_text("sea")
        os.utime(self.file, (1, 1))
        self.seen_at += 3600


async def heard(visitor: Visitor, *texts: str) -> None:
    while visitor.application.heard != ["websocket.connect", *texts]:
        await asyncio.sleep(0)


def played(visitor: Visitor, act: Act) -> None:
    """The websocket is open, something happens, and within bounds the application hears of its end."""

    async def play() -> None:
        opened = asyncio.create_task(visitor.open())
        await heard(visitor)
        visitor.say({"type": "websocket.receive", "text": "before"})
        await heard(visitor, "before")
        await act(visitor)
        await asyncio.wait_for(opened, 60)

    asyncio.run(play())


def test_what_a_page_does_is_done_in_the_name_of_its_visitor(tmp_path: Path) -> None:
    visitor = Visitor(tmp_path)
    asyncio.run(visitor.request("GET", "/topics"))
    played(visitor, log_out)
    assert visitor.application.who == ["token:administrator"] * 2


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "POST"])
@pytest.mark.parametrize("origin", ["http://evil.example", "http://localhost:1", "null"])
def test_pages_of_other_places_may_not_even_ask(tmp_path: Path, method: str, origin: str) -> None:
    """One on another port of this machine comes with the visitor's cookie, however strict that is."""
    visitor = Visitor(tmp_path)
    own = visitor.scope("http", method, "/_nicegui_ws/socket.io/")
    asked = {**own, "headers": [*own["headers"], (b"origin", origin.encode())]}
    asyncio.run(visitor.guard(asked, visitor._says.get, visitor._hear))
    assert visitor.sent[0]["status"] == 403 and not visitor.application.scope


async def another_token_and_a_message(visitor: Visitor) -> None:
    visitor.another_token()
    visitor.say({"type": "websocket.receive", "text": "publish"})


async def time_passes_and_a_message(visitor: Visitor) -> None:
    visitor.now += visitor.sessions.lifetime_s
    visitor.say({"type": "websocket.receive", "text": "publish"})


async def another_token_only(visitor: Visitor) -> None:
    visitor.another_token()


async def log_out(visitor: Visitor) -> None:
    await visitor.request("POST", "/logout")


@pytest.mark.parametrize(
    ("act", "look_s"),
    [
        (another_token_and_a_message, 3600.0),
        (time_passes_and_a_message, 3600.0),
        (another_token_only, 0.001),
        (log_out, 3600.0),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_a_websocket_ends_with_its_session_before_another_message(
    tmp_path: Path, act: Act, look_s: float
) -> None:
    visitor = Visitor(tmp_path, look_s)
    played(visitor, act)
    assert visitor.application.heard == ["websocket.connect", "before"]
    assert (visitor.sent[-1]["type"], visitor.sent[-1]["code"]) == ("websocket.close", 4403)
    assert visitor.ended and len(set(visitor.ended)) == 1, "its pages are forgotten"
    assert visitor.sessions.find(visitor.cookie, visitor.now) is None


def test_whoever_leaves_by_himself_ends_no_session(tmp_path: Path) -> None:
    async def leave(visitor: Visitor) -> None:
        visitor.say({"type": "websocket.disconnect", "code": 1001})

    visitor = Visitor(tmp_path)
    played(visitor, leave)
    assert not visitor.ended and not visitor.sent
    assert visitor.sessions.find(visitor.cookie, visitor.now) is not None


def test_a_page_can_ask_whether_the_session_that_it_was_made_in_stands(tmp_path: Path) -> None:
    visitor = Visitor(tmp_path)
    asyncio.run(visitor.request("GET", "/topics"))
    session = visitor.sessions.find(visitor.cookie, NOW)
    scope = visitor.application.scope
    assert session is not None and scope[SESSION] == session.id and scope[STANDS]()
    visitor.another_token()
    assert not scope[STANDS]()
