"""What a bridge to another system is: one small class for each way, `Inbound` or `Outbound`.

Called by `runner`, which does the rest: it reads and writes the log, keeps the position, restarts
what fails, counts, and puts what cannot be stored or sent among the dead letters. `config` finds the
class for an address. `headwater.testing.bridges` has the tests that every bridge must pass.

    in    open → (receive → the log has them → stored)…  → close
    out   open → (records of the topic → send → position committed)… → close

Invariants:
- `stored` must be the only place where messages are acknowledged to the source: it is called when the log
  has them on disk. After a crash before it, a source that can must deliver them again (`REDELIVERS`).
- `send` must return only when the other side has confirmed each record, or could not be asked to
  (`CONFIRMS` is False, and `LOSES` says what that means).
- Calls never overlap: one bridge is used by one task. Between two calls of `receive` a bridge may collect,
  up to a bound of its own.
- An exception from any of them ends the bridge: `close` is called, and after a while a new one is opened.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Self

from headwater.client.records import Record
from headwater.errors import HeadwaterError

if TYPE_CHECKING:
    from headwater.client.log import Log

__all__ = [
    "Bridge",
    "BridgeBroken",
    "End",
    "Headers",
    "Inbound",
    "Message",
    "Outbound",
    "Record",
    "Refusal",
]

Headers = Sequence[tuple[str, bytes | None]]


class BridgeBroken(HeadwaterError):
    """The other side cannot be reached, or does not do as it should; it is tried again."""


@dataclass(frozen=True)
class End:
    """The other system's end of a bridge: what its section in headwater.toml says."""

    bridge: str
    """The bridge's name."""
    address: str
    """As written, with ${…} filled in: `mqtt://…`, or `module:Class`."""
    options: Mapping[str, object] = field(default_factory=dict)
    """The section's other settings, defaults of `OPTIONS` included."""
    topic: str = ""
    """The log's end."""
    log: Log | None = field(default=None, compare=False, repr=False)
    """For a bridge that looks up in the log where it was; not there while a file is checked."""

    def text(self, option: str) -> str:
        """A setting whose default is a text, or None: then "" where it was not given."""
        value = self.options[option]
        return "" if value is None else str(value)

    def texts(self, option: str) -> list[str]:
        """One whose default is a list."""
        value = self.options[option]
        assert isinstance(value, list)
        return value

    def number(self, option: str) -> int:
        """One whose default is a whole number."""
        value = self.options[option]
        assert isinstance(value, int)
        return value

    def seconds(self, option: str) -> float:
        """One whose default is a fraction; a whole number may be given for it."""
        value = self.options[option]
        assert isinstance(value, int | float)
        return float(value)

    def flag(self, option: str) -> bool:
        """One whose default is true or false."""
        return bool(self.options[option])

    @property
    def scheme(self) -> str:
        return self.address.partition("://")[0].lower() if "://" in self.address else ""

    @property
    def shown(self) -> str:
        """For people: the address without a login."""
        scheme, is_url, place = self.address.partition("://")
        authority, slash, path = place.partition("/")
        return f"{scheme}{is_url}{authority.rpartition('@')[2]}{slash}{path}"

    @property
    def place(self) -> str:
        """What follows `scheme://`, as it is: `#` and `?` mean other things elsewhere than in a URL."""
        return self.address.partition("://")[2]


@dataclass(slots=True)
class Message:
    """What came in, to become one record. Not frozen only because that triples the cost of making one."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None
    """When it happened, where the source says so; None: now."""
    id: str | None = None
    """What the source calls this very message, however often it sends it; for `once`."""
    beside: str = ""
    """Not into the topic itself but the one beside it: `.gaps` for TOPIC.gaps."""
    refused: str | None = None
    """Why it is no good: it goes to TOPIC.dead-letters with this sentence."""
    token: object = None
    """For the bridge: what it needs in order to acknowledge."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A record that the other side will never take, and why: it goes to the dead letters."""

    record: Record
    reason: str


class Bridge:
    """What both ways have in common."""

    LOSES: ClassVar[str]
    """What can be lost on this way and when, in one sentence; shown by `GET /status`."""
    OPTIONS: ClassVar[Mapping[str, object]] = {}
    """Settings of the section besides `from` and `to`, each with its default, whose type it must have;
    a default of None: any text."""

    def __init__(self, end: End) -> None:
        self.end = end

    @classmethod
    def check(cls, end: End) -> list[str]:
        """What is wrong with the address or the options beyond their names and types. No I/O."""
        del end
        return []

    async def open(self) -> None:
        """Connect. Must fail with a sentence rather than wait for ever."""

    async def close(self) -> None:
        """Let go of everything; also after a failure, in whatever state it is."""

    def status(self) -> Mapping[str, object]:
        """Whatever is worth showing in `GET /status`: plain JSON, cheap to ask for."""
        return {}

    async def __aenter__(self) -> Self:
        try:
            await self.open()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Inbound(Bridge, ABC):
    """From another system into a topic."""

    REDELIVERS: ClassVar[bool] = False
    """Whether the source sends again what was not acknowledged by `stored`."""

    @abstractmethod
    async def receive(self) -> Sequence[Message]:
        """Wait for a message, then give all that are there, up to a bound, in order. May be cancelled:
        what was not returned must then come from the next call or from the source again."""

    async def stored(self, messages: Sequence[Message]) -> None:
        """The log has them: acknowledge. Always the messages of the last `receive`, all of them."""


class Outbound(Bridge, ABC):
    """From a topic to another system."""

    CONFIRMS: ClassVar[bool] = False
    """Whether the other side confirms what it has got."""

    @abstractmethod
    async def send(self, records: Sequence[Record]) -> Sequence[Refusal]:
        """Send them in order, wait until they are confirmed, and name those that will never be taken.
        After an exception all of them are sent again."""
