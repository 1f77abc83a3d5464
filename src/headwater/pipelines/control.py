"""Asking the application that runs: `headwater verify`, `rebuild` and `rows` need no Spark of their own.

The application listens on a socket in its folder of checkpoints, which only its owner may use
(`control_server`). One connection is one request:

    client ──▶  {"kind": "verify", "view": "orders", "words": {…}, "bootstrap": …}
           ◀──  {"say": "the view is at …"}           as often as there is something to say
           ◀──  {"progress": [1200, 33000]}
           ◀──  {"outcome": "…"}  or  {"error": "…"}  or  {"other": "why it is not this application's"}

Each is a line. The request is JSON and no more; what the application answers may hold any value of a row, and
is a pickle in Base64, which the client takes only from a socket of its own user's. A client that writes no
more (shutdown) wants the work to stop. Where nobody answers, the caller does the work itself.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import pickle
import signal
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from headwater.errors import HeadwaterError

if TYPE_CHECKING:
    from headwater.pipelines.application import Order

NAME = ".control"
LINE_BYTES_MAX = 1 << 20
"""Of a request."""
VERIFY, REBUILD, ROWS = "verify", "rebuild", "rows"


@dataclass(frozen=True)
class Request:
    """What one application is asked to do for another."""

    kind: str
    view: str
    bootstrap: str
    paths: tuple[str, ...]
    client: str
    """A fingerprint of the settings by which the log is reached."""
    target: str | None = None
    """Where the view lives, if not where its file says."""
    words: Mapping[str, object] = field(default_factory=dict)
    master: str | None = None
    """The Spark that is to do it; None: any."""

    def to_line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def of_line(cls, line: bytes) -> Request:
        found = json.loads(line)
        return cls(**{**found, "paths": tuple(found["paths"])})


def request(
    order: Order,
    kind: str,
    view: str,
    targets: Mapping[str, str],
    *,
    master: str | None = None,
    **words: object,
) -> Request:
    return Request(
        kind,
        view,
        order.bootstrap,
        tuple(sorted(str(path.resolve()) for path in order.paths)),
        fingerprint(order.client),
        targets.get(view),
        words,
        master,
    )


def fingerprint(client: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(sorted(client.items())).encode()).hexdigest()


@contextmanager
def address(checkpoints: Path) -> Iterator[str]:
    """The socket's path, as short as the system wants it: by way of the open folder, where there is /proc."""
    if not Path("/proc/self/fd").is_dir():
        yield str(checkpoints / NAME)
        return
    folder = os.open(checkpoints, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{NAME}"
    finally:
        os.close(folder)


class Audience(Protocol):
    """Who watches the work."""

    def progress(self, done: int, total: int) -> None: ...

    def say(self, sentence: str) -> None: ...


def ask(checkpoints: str, wanted: Request, audience: Audience) -> object:
    """What the application has to say in the end; None where none runs that could do it.

    Raises what went wrong there.
    """
    connection = _connected(checkpoints)
    if connection is None:
        return None
    with connection, connection.makefile("rb") as lines, _ended_by_signal(connection):
        try:
            connection.sendall(wanted.to_line())
            for line in lines:
                heard = json.loads(line)
                if "say" in heard:
                    audience.say(heard["say"])
                elif "progress" in heard:
                    audience.progress(*heard["progress"])
                elif "other" in heard:
                    audience.say(heard["other"])
                    return None
                else:
                    return _outcome(heard)
        except (OSError, ValueError):
            pass  # cut off in the middle
    audience.say("the application that runs has ended meanwhile")
    return None


def _outcome(heard: Mapping[str, str]) -> object:
    if "error" in heard:
        error = unpacked(heard["error"])
        assert isinstance(error, Failure)
        raise error.kind(error.sentence, hint=error.hint)
    return unpacked(heard["outcome"])


@dataclass(frozen=True)
class Failure:
    """An error on its way: the class, and what it says."""

    kind: type[HeadwaterError]
    sentence: str
    hint: str | None


def packed(value: object) -> str:
    return base64.b64encode(pickle.dumps(value)).decode()


def unpacked(text: str) -> object:
    return pickle.loads(base64.b64decode(text))


def _connected(checkpoints: str) -> socket.socket | None:
    folder = Path(checkpoints)
    try:
        if (folder / NAME).lstat().st_uid != os.getuid():
            return None
        with address(folder) as place:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            with ExitStack() as undone:
                undone.callback(connection.close)
                connection.connect(place)
                undone.pop_all()
        return connection
    except OSError:
        return None  # nobody is there


@contextmanager
def _ended_by_signal(connection: socket.socket) -> Iterator[None]:
    """A first Ctrl-C or SIGTERM asks for an end; a second one does what it does otherwise."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, _: object) -> None:
        signal.signal(number, before[signal.Signals(number)])
        with suppress(OSError):  # it has ended already
            connection.shutdown(socket.SHUT_WR)

    before = {each: signal.signal(each, stop) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
