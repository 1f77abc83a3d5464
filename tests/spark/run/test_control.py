"""Requests to a running application: who may ask, what is answered, and when the asker does it alone."""

from __future__ import annotations

import os
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headwater.pipelines import control
from headwater.pipelines.application import Order
from headwater.pipelines.control import Request
from headwater.pipelines.control_server import ControlServer, Exchange, NotHere, _not_ours
from headwater.pipelines.errors import NotVerifiable

WANTED = Request("verify", "orders", "127.0.0.1:9092", ("/p",), control.fingerprint({}))


@contextmanager
def serving(folder: Path, handle: Callable[[Exchange], Any]) -> Iterator[ControlServer]:
    server = ControlServer(folder, handle)
    try:
        yield server
    finally:
        server.close()


def ask(folder: Path, wanted: Request = WANTED) -> tuple[Any, list[Any]]:
    audience = Heard()
    return control.ask(str(folder), wanted, audience), audience.heard


class Heard:
    def __init__(self) -> None:
        self.heard: list[Any] = []

    def progress(self, done: int, total: int) -> None:
        self.heard.append((done, total))

    def say(self, sentence: str) -> None:
        self.heard.append(sentence)


def test_an_application_says_how_far_it_is_and_what_came_of_it(tmp_path: Path):
    def handle(exchange: Exchange) -> Any:
        exchange.say(f"{exchange.request.kind} {exchange.request.view}")
        exchange.progress(1, 2)
        return {"rows": 3, "key": b"\0"}

    folder = tmp_path / ("a long name " * 12)  # longer than a socket's address may be
    folder.mkdir()
    with serving(folder, handle):
        assert stat.S_IMODE((folder / control.NAME).stat().st_mode) == 0o600
        assert ask(folder) == ({"rows": 3, "key": b"\0"}, ["verify orders", (1, 2)])
        assert ask(folder)[0] is not None
    assert not (folder / control.NAME).exists()


def test_where_nobody_answers_the_asker_does_it_alone(tmp_path: Path):
    assert ask(tmp_path) == (None, [])
    left = socket.socket(socket.AF_UNIX)
    with control.address(tmp_path) as place:
        left.bind(place)  # of an application that was killed
    left.close()
    assert ask(tmp_path) == (None, [])

    def other(exchange: Exchange) -> Any:
        raise NotHere("the application that runs has other files")

    with serving(tmp_path, other):  # takes the place of the one that was left
        assert ask(tmp_path) == (None, ["the application that runs has other files"])


def test_a_mistake_is_raised_where_it_was_asked_for(tmp_path: Path):
    def handle(exchange: Exchange) -> Any:
        if exchange.request.view == "orders":
            raise NotVerifiable("it has not begun yet", hint="wait")
        raise ZeroDivisionError("a defect")

    with serving(tmp_path, handle):
        with pytest.raises(NotVerifiable, match="not begun") as caught:
            ask(tmp_path)
        assert caught.value.hint == "wait"
        with pytest.raises(Exception, match=r"could not do it: .*a defect"):
            ask(tmp_path, replace(WANTED, view="other"))


def test_work_ends_when_nobody_waits_for_it_or_the_application_ends(tmp_path: Path):
    begun, cancelled = threading.Semaphore(0), threading.Semaphore(0)

    def handle(exchange: Exchange) -> Any:
        exchange.cancel = cancelled.release
        begun.release()
        assert exchange.stopped.wait(60)
        return 1

    with serving(tmp_path, handle) as server:
        gone = socket.socket(socket.AF_UNIX)
        with control.address(tmp_path) as place:
            gone.connect(place)
        gone.sendall(WANTED.to_line())
        assert begun.acquire(timeout=60)
        gone.close()
        assert cancelled.acquire(timeout=60)
        ended: list[Any] = []
        asker = threading.Thread(target=lambda: ended.append(ask(tmp_path)[0]))
        asker.start()
        assert begun.acquire(timeout=60)
        server.close()
        asker.join(60)
        assert ended == [1]


def test_what_is_no_request_harms_nobody(tmp_path: Path):
    with serving(tmp_path, lambda exchange: 1):
        for bytes_ in (
            b"",
            b"\n",
            b"GET / HTTP/1.1\r\n\r\n",
            b'{"kind": 1}\n',
            b"[]\n",
            os.urandom(99),
        ):
            with socket.socket(socket.AF_UNIX) as stranger, control.address(tmp_path) as place:
                stranger.connect(place)
                stranger.sendall(bytes_)
                stranger.shutdown(socket.SHUT_WR)
                assert stranger.recv(1) == b""
        assert ask(tmp_path)[0] == 1


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, None),
        ({"paths": ("/p/x.py",)}, None),
        ({"paths": ("/q",)}, "has other files"),
        ({"bootstrap": "127.0.0.1:1"}, "reads the log at"),
        ({"client": "x"}, "other settings"),
        ({"target": "sqlite:y.db"}, "keeps orders elsewhere"),
        ({"kind": "drop"}, "does not know how"),
        ({"kind": "rows", "master": "local[2]"}, None),
        ({"master": "spark://other:7077"}, "has its Spark at local[2]"),
    ],
)
def test_an_application_does_only_what_is_its_own(change: dict[str, Any], reason: str | None):
    order = Order((Path("/p"),), "127.0.0.1:9092", "cp", master="local[2]")
    found = _not_ours(replace(WANTED, **change), order)
    assert found is None if reason is None else reason in (found or "")
