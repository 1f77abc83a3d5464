"""Requests to a running application, each answered in a thread of its own; see `control` for what they say.

`headwater run` hands `requests` to its application, for folders of checkpoints on this machine. The work is
that of `verify_job`, `past_rows` and `rebuild`; only the session's application is one that is there. Each
request gets a session of its own (its settings are nobody else's) and they share a pool: the running queries
have their shares of the cores beside it. The files are loaded anew, as a command would. A request that is
about other files, another log or another place of the view than the application's is not its own.
"""

from __future__ import annotations

import json
import logging
import socket
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.errors import HeadwaterError
from headwater.pipelines import application, control
from headwater.pipelines.control import Request
from headwater.pipelines.errors import PipelineError, brief
from headwater.pipelines.handles import placed, the_view
from headwater.pipelines.loader import load_again, read
from headwater.pipelines.past_rows import Asked, past_rows
from headwater.pipelines.rebuild import rebuilt
from headwater.pipelines.verify_job import verified

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger("headwater.pipelines")
POOL = "headwater requests"
"""One share of the cores for them all, beside one for each view."""
REQUESTS_MOST = 4
PATIENCE_S = 20.0


class NotHere(Exception):
    """A request that is not this application's."""


class Exchange:
    """One request and who waits for its outcome; `stopped` once nobody does."""

    def __init__(self, connection: socket.socket, request: Request) -> None:
        self.request = request
        self.stopped = threading.Event()
        self.cancel: Callable[[], None] = lambda: None
        """Called once it is stopped: what can be broken off need not be ended."""
        self._connection = connection
        self._writing = threading.Lock()

    def say(self, sentence: str) -> None:
        self._tell({"say": sentence})

    def say_unless_left(self, sentence: str) -> None:
        """Between two steps of the work: where nobody waits for it any more, it ends here."""
        if self.stopped.is_set():
            raise NotHere("was no longer waited for")
        self.say(sentence)

    def progress(self, done: int, total: int) -> None:
        self._tell({"progress": [done, total]})

    def other(self, reason: str) -> None:
        self._tell({"other": reason})

    def end(self, outcome: object) -> None:
        self._tell({"outcome": control.packed(outcome)})

    def __enter__(self) -> Exchange:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> bool:
        """What went wrong is told to who asked, and ends nothing else."""
        if isinstance(error, NotHere):
            self.other(str(error))
        elif isinstance(error, Exception):
            self._fail(error)
        return isinstance(error, Exception)

    def _fail(self, error: Exception) -> None:
        if not isinstance(error, HeadwaterError):
            error = PipelineError(f"the running application could not do it: {brief(error)}")
        told = control.Failure(type(error), error.sentence, error.hint)
        self._tell({"error": control.packed(told)})

    def _tell(self, what: Mapping[str, object]) -> None:
        try:
            with self._writing:
                self._connection.sendall(json.dumps(what).encode() + b"\n")
        except OSError:
            self.stopped.set()

    def watch(self) -> None:
        """Until the client writes no more."""
        with suppress(OSError):
            while self._connection.recv(1024):
                pass
        self.stop()

    def stop(self) -> None:
        self.stopped.set()
        self.cancel()


class ControlServer:
    """`handle` does what a request says, and returns the outcome."""

    def __init__(self, checkpoints: Path, handle: Callable[[Exchange], object]) -> None:
        self._path = checkpoints / control.NAME
        self._handle = handle
        self._under_way: dict[Exchange, threading.Thread] = {}
        self._path.unlink(missing_ok=True)  # of one that was killed: its folder's lock is ours now
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with control.address(checkpoints) as place:
            self._socket.bind(place)
        self._path.chmod(0o600)
        self._socket.listen(REQUESTS_MOST)  # only now can anybody connect
        self._thread = threading.Thread(target=self._accept, name="control", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take no more requests, and let those under way come to an end."""
        self._path.unlink(missing_ok=True)
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for exchange, thread in list(self._under_way.items()):
            exchange.stop()
            thread.join(PATIENCE_S)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                with connection.makefile("rb") as lines:
                    request = Request.of_line(lines.readline(control.LINE_BYTES_MAX))
            except (OSError, ValueError, TypeError, KeyError):
                return  # no request
            exchange = Exchange(connection, request)
            if len(self._under_way) >= REQUESTS_MOST:
                exchange.other(f"the application that runs has {REQUESTS_MOST} requests already")
                return
            self._under_way[exchange] = threading.current_thread()
            threading.Thread(target=exchange.watch, daemon=True).start()
            try:
                with exchange:
                    exchange.end(self._handle(exchange))
            finally:
                del self._under_way[exchange]
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


# ---- what is done ----------------------------------------------------------------------------------


@contextmanager
def requests(order: application.Order, spark: SparkSession) -> Iterator[None]:
    """Answer requests until left."""
    if order.once:
        yield  # it is gone soon
        return
    try:
        server = ControlServer(
            Path(order.checkpoints), lambda exchange: _handled(exchange, order, spark)
        )
    except OSError as error:  # a file system without sockets, a path that is too long
        logger.warning("nobody can ask this application to verify or rebuild: %s", error)
        yield
        return
    try:
        yield
    finally:
        server.close()


def _handled(exchange: Exchange, order: application.Order, spark: SparkSession) -> object:
    request = exchange.request
    if reason := _not_ours(request, order):
        raise NotHere(f"the application that runs {reason}")
    session = spark.newSession()
    context = session.sparkContext
    group = f"headwater {request.kind} {uuid.uuid4()}"
    context.setLocalProperty("spark.scheduler.pool", POOL)
    context.setJobGroup(group, f"{request.kind} {request.view}")
    sources = read(order.paths)
    view = the_view(request.view, placed(load_again(order.paths), order.targets))
    application.carry_functions(order.paths)
    if request.kind == control.REBUILD:
        switch = bool(request.words.get("switch", True))
        return rebuilt(order, session, view, sources, exchange, exchange.stopped, switch=switch)

    def cancel() -> None:
        with suppress(Exception):  # where Spark has ended there is nothing to cancel
            context.cancelJobGroup(group)

    exchange.cancel = cancel
    if exchange.stopped.is_set():
        raise NotHere("was no longer waited for")  # left before it could be cancelled
    say = exchange.say_unless_left
    words = request.words
    if request.kind == control.ROWS:
        return past_rows(order, session, view, say, _asked(words))
    version = words.get("version")
    return verified(
        order,
        session,
        view,
        say,
        repair=bool(words.get("repair")),
        version=version if isinstance(version, int) else None,
    )


def _asked(words: Mapping[str, object]) -> Asked:
    limit = words.get("limit")
    most = limit if isinstance(limit, int) else Asked.limit
    return Asked(str(words.get("as_of", "")), str(words.get("key", "")), most)


def _not_ours(request: Request, order: application.Order) -> str | None:
    """Why the application cannot do what is asked; None where it can."""
    ours = [path.resolve() for path in order.paths]
    if request.kind not in (control.VERIFY, control.REBUILD, control.ROWS):
        return f"does not know how to {request.kind}"
    if request.bootstrap != order.bootstrap:
        return f"reads the log at {order.bootstrap}"
    if request.master not in (None, order.master):
        return f"has its Spark at {order.master}"
    if request.client != control.fingerprint(order.client):
        return "reaches the log with other settings"
    if request.target != order.targets.get(request.view):
        return f"keeps {request.view} elsewhere"
    if not all(any(Path(p).is_relative_to(each) for each in ours) for p in request.paths):
        return "has other files"
    return None
