"""Which APIs the broker answers, in which versions: declared once, next to each handler.

Every file in `api/` builds one `Api`; `ApiVersions` answers from this registry and the connection
refuses what is not in it. A handler is a plain function

    handle(broker, request, context) -> dict | Later | Awaitable[dict]

`request` is kio's entity of the version that the client chose, the dict is the response (see `messages`).
A handler that can answer at once returns a dict: no task is made for it. One that has to wait returns a
`Later`, or is a coroutine.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from headwater.broker.bounds import TOPICS_MADE_MAX
from headwater.broker.security.principal import ANONYMOUS

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

Response = Mapping[str, Any]
Handler = Callable[["Broker", Any, "Context"], "Response | Later | Awaitable[Response]"]
Lists = Callable[["Broker", object], bool]
NO_ANSWER: Response = MappingProxyType({})
"""What a handler gives when the protocol wants no answer (Produce with acks=0)."""


def always(broker: Broker, request: object) -> bool:
    """Of an API that lists what all clients have made."""
    return True


def anybody(name: str) -> bool:
    """Without an authorizer."""
    return True


def never(broker: Broker, request: object) -> bool:
    """Of most others."""
    return False


class Later:
    """An answer that comes later. Lighter than a future: `set` calls its one listener at once."""

    __slots__ = ("_listener", "_on_failure", "failure", "is_cancelled", "on_cancel", "response")

    def __init__(self, on_cancel: Callable[[], None] | None = None) -> None:
        self.response: Response | None = None
        self.failure: Exception | None = None
        self.is_cancelled = False
        self.on_cancel = on_cancel
        """Called if the client goes away first."""
        self._listener: Callable[[Response], None] | None = None
        self._on_failure: Callable[[Exception], None] | None = None

    def set(self, response: Response) -> None:
        """Give the answer; only the first counts."""
        if self.response is None and self.failure is None:
            self.response = response
            if self._listener is not None:
                self._listener(response)

    def fail(self, error: Exception) -> None:
        """There will be no answer, for a reason that is ours."""
        if self.response is None and self.failure is None:
            self.failure = error
            if self._on_failure is not None:
                self._on_failure(error)

    def listen(
        self, listener: Callable[[Response], None], on_failure: Callable[[Exception], None]
    ) -> None:
        if self.response is not None:
            listener(self.response)
        elif self.failure is not None:
            on_failure(self.failure)
        else:
            self._listener, self._on_failure = listener, on_failure

    def cancel(self) -> None:
        self.is_cancelled = True
        self._listener = self._on_failure = None
        if self.on_cancel is not None:
            self.on_cancel()


@dataclass(frozen=True, slots=True)
class Context:
    """Who asks, and in which version."""

    api_version: int
    client_id: str
    client_host: str
    connection: Any = None
    """Identity of the connection, for what must end with it."""
    may_create: Callable[[str], bool] = anybody
    """Whether the client may make a topic of this name, where a request leads to that by the way."""
    topics_left: Iterator[int] = field(default_factory=lambda: iter(range(TOPICS_MADE_MAX)))
    """One for each topic that the request may still make by the way, whatever slices it is answered in."""

    kept: dict[str, object] = field(default_factory=dict)
    """What its handler keeps of one slice of the request for the next."""

    @property
    def principal(self) -> str:
        """Who asks: `User:NAME`."""
        return ANONYMOUS if self.connection is None else str(self.connection.principal)

    def is_kept(self) -> None:
        """What the request says has become state, which is counted elsewhere."""
        if self.connection is not None:
            self.connection.is_kept()

    def reads(self, size: int) -> None:
        """So many bytes more (or less) are held for the answer, until that is sent."""
        if self.connection is not None:
            self.connection.reads(size)

    def address(self, broker: Broker) -> tuple[str, int]:
        """Where this client is told to connect: the listener that it came through."""
        if self.connection is None:
            return broker.host, broker.port
        found: tuple[str, int] = self.connection.address
        return found


@dataclass(frozen=True, slots=True)
class Api:
    """One Kafka API: its key, the versions we speak and the function that answers."""

    key: int
    name: str
    versions: tuple[int, int]
    handle: Handler
    pipelined: bool = False
    """May start before the connection's earlier requests are answered (answers stay in order)."""
    answer_is_large: bool = False
    """Is begun only when there is memory for what it reads."""
    lists: Lists = never
    """Whether the answer to a request may be much more than that: one such answer is made at a time."""
    rows_depth: int = 4
    """How deep rows lie within rows in its answer; exact only for those that are asked for all the time."""
    waits: bool = False
    """For other clients, as long as its own says; it is stopped if that goes away, or holds much memory
    that others wait for."""
    only_looks: bool = False
    """Changes nothing: where it waits, it is stopped if its client goes away."""

    def supports(self, version: int) -> bool:
        return self.versions[0] <= version <= self.versions[1]


def load_apis() -> dict[int, Api]:
    """Every `API` in the `api` package, by key."""
    from headwater.broker import api as package

    found: dict[int, Api] = {}
    for module in pkgutil.iter_modules(package.__path__):
        entry = importlib.import_module(f"{package.__name__}.{module.name}").API
        assert entry.key not in found, f"two handlers for API {entry.key}"
        found[entry.key] = entry
    return dict(sorted(found.items()))
