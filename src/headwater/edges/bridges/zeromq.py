"""ZeroMQ: SUB and PULL in, PUB and PUSH out. There is no broker, and nothing is ever acknowledged.

    zmq+sub://127.0.0.1:5556       connects there (or listens there, with bind = true)
    zmq+pull:///run/app.socket     without a host: a socket in the file system (ZeroMQ's ipc)

Frames of a message and a record:

    [value]                    no key
    [key, value]               as PUB/SUB uses them: the first frame is what subscribers choose by
    [key, …, value]            those in between are headers `zmq-frame-1`, `zmq-frame-2`, …

Called by `runner` through the contract.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from headwater.edges.bridges.contract import (
    BridgeBroken,
    End,
    Headers,
    Inbound,
    Message,
    Outbound,
    Record,
    Refusal,
)
from headwater.project.ports import is_address

BATCH = 1000
SEND_TIMEOUT_S = 30.0
MESSAGE_BYTES_MAX = 16 * 1024**2
"""In: ZeroMQ by itself takes whatever a stranger sends; whoever sends more is cut off."""
LINGER_MS = 2000
"""How long a socket that is closed tries to hand over what it holds."""
_FRAME = "zmq-frame-"


class _Socket:
    """One socket, opened with the settings that all four kinds share."""

    def __init__(self, end: End, kind: str) -> None:
        self._end, self._kind = end, kind
        self._context: Any = None
        self.socket: Any = None
        self.plain: Any = None
        """The same socket without asyncio: takes or gives a message now, or says Again."""

    def open(self, **settings: Any) -> None:
        import zmq
        import zmq.asyncio

        self._context = zmq.asyncio.Context(io_threads=1)
        self.socket = self._context.socket(getattr(zmq, self._kind))
        self.plain = zmq.Socket.shadow(self.socket.underlying)
        self.socket.linger = LINGER_MS
        for name, value in settings.items():
            setattr(self.socket, name, value)
        endpoint = endpoint_of(self._end)
        try:
            if self._end.flag("bind"):
                self.socket.bind(endpoint)
            else:
                self.socket.connect(endpoint)
        except zmq.ZMQError as error:
            raise BridgeBroken(f"{self._end.shown}: {error}") from error

    async def close(self) -> None:
        context, self._context, self.plain = self._context, None, None
        if context is not None:
            await asyncio.to_thread(context.destroy)  # waits for what lingers


class _In(Inbound):
    OPTIONS: ClassVar[Mapping[str, object]] = {"bind": False, "high_water_mark": 10_000}
    _KIND: ClassVar[str]

    @classmethod
    def check(cls, end: End) -> list[str]:
        return _complaints(end)

    async def open(self) -> None:
        self._socket = _Socket(self.end, self._KIND)
        hwm = self.end.number("high_water_mark")
        self._socket.open(rcvhwm=hwm, maxmsgsize=MESSAGE_BYTES_MAX)

    async def receive(self) -> Sequence[Message]:
        import zmq

        await self._socket.socket.poll()
        found: list[Message] = []
        try:
            while len(found) < BATCH:
                found.append(message_of(self._socket.plain.recv_multipart(zmq.NOBLOCK)))
        except zmq.Again:
            pass
        return found

    async def close(self) -> None:
        if hasattr(self, "_socket"):
            await self._socket.close()


class Pull(_In):
    """One of the workers among whom a PUSH socket deals its messages out."""

    LOSES = (
        "what is in this socket's queue (high_water_mark) and in the network's buffers when the edges "
        "or the machine stop suddenly; while they are away, senders keep and then block"
    )
    _KIND = "PULL"


class Sub(_In):
    """A subscriber: gets what is published from when it has connected."""

    LOSES = (
        "what is published while the edges are away or still connecting, and what exceeds the high-water "
        "mark of the publisher or of this socket: ZeroMQ throws it away without telling either side"
    )
    OPTIONS: ClassVar[Mapping[str, object]] = {**_In.OPTIONS, "subscribe": [""]}
    _KIND = "SUB"

    async def open(self) -> None:
        await super().open()
        for prefix in self.end.texts("subscribe"):
            self._socket.socket.subscribe(prefix)

    @classmethod
    def check(cls, end: End) -> list[str]:
        wanted = end.texts("subscribe")
        if not wanted or not all(isinstance(each, str) for each in wanted):
            said = f'subscribe = {wanted!r} is no list of prefixes as in ["orders"]; [""] means all'
            return [*_complaints(end), said]
        return _complaints(end)


class _Out(Outbound):
    OPTIONS: ClassVar[Mapping[str, object]] = {"bind": False, "high_water_mark": 1000}
    _KIND: ClassVar[str]
    _MORE: ClassVar[Mapping[str, int]] = {}

    @classmethod
    def check(cls, end: End) -> list[str]:
        return _complaints(end)

    async def open(self) -> None:
        self._socket = _Socket(self.end, self._KIND)
        self._socket.open(sndhwm=self.end.number("high_water_mark"), **self._MORE)

    async def send(self, records: Sequence[Record]) -> Sequence[Refusal]:
        import zmq

        for record in records:
            frames = frames_of(record)
            try:
                self._socket.plain.send_multipart(frames, zmq.NOBLOCK)
            except zmq.Again:
                await self._wait_and_send(frames)
        return ()

    async def _wait_and_send(self, frames: list[bytes]) -> None:
        try:
            async with asyncio.timeout(SEND_TIMEOUT_S):
                await self._socket.socket.send_multipart(frames)
        except TimeoutError:
            raise BridgeBroken(
                f"{self.end.shown}: nobody takes messages",
                hint="is the other side connected? The position stays where it is",
            ) from None

    async def close(self) -> None:
        if hasattr(self, "_socket"):
            await self._socket.close()


class Push(_Out):
    """Deals records out among the PULL sockets that are connected; waits while there is none."""

    LOSES = (
        "what is in the queues of the sockets (high_water_mark on either side) and in the network's "
        "buffers when either side stops suddenly: ZeroMQ does not tell what has arrived"
    )
    _KIND = "PUSH"
    # Hand messages only to peers that are there, and wait while there is none.
    _MORE: ClassVar[Mapping[str, int]] = {"immediate": 1}


class Pub(_Out):
    """Publishes; the position goes on whether anybody listens or not."""

    LOSES = (
        "everything for a subscriber that is away, still connecting, or slower than the high-water mark; "
        "everything while nobody subscribes"
    )
    _KIND = "XPUB"  # as PUB, and hears of subscriptions

    def __init__(self, end: End) -> None:
        super().__init__(end)
        self._subscribed: set[bytes] = set()

    async def send(self, records: Sequence[Record]) -> Sequence[Refusal]:
        self._hear()
        return await super().send(records)

    def _hear(self) -> None:
        import zmq

        try:
            while True:
                said = self._socket.plain.recv(zmq.NOBLOCK)
                change = self._subscribed.add if said[:1] == b"\x01" else self._subscribed.discard
                change(said[1:])
        except zmq.Again:
            pass

    def status(self) -> Mapping[str, object]:
        """The prefixes that somebody subscribes to, a hundred of them."""
        if hasattr(self, "_socket") and self._socket.plain is not None:
            self._hear()
        shown = [each.decode("utf-8", "backslashreplace") for each in sorted(self._subscribed)]
        return {"subscribed": shown[:100]}


def endpoint_of(end: End) -> str:
    """As ZeroMQ spells it."""
    return f"ipc://{end.place}" if end.place.startswith("/") else f"tcp://{end.place}"


def message_of(frames: Sequence[bytes]) -> Message:
    if len(frames) == 1:
        return Message(frames[0])
    between = tuple((f"{_FRAME}{number}", frame) for number, frame in enumerate(frames[1:-1], 1))
    return Message(frames[-1], frames[0], between)


def frames_of(record: Record) -> list[bytes]:
    """The key frame is there even when there is no key: subscribers choose by the first frame."""
    return [record.key or b"", *_between(record.headers), record.value or b""]


def _between(headers: Headers) -> list[bytes]:
    numbered = [
        (int(name[len(_FRAME) :]), value or b"")
        for name, value in headers
        if name.startswith(_FRAME) and len(name) < 20 and name[len(_FRAME) :].encode().isdigit()
    ]
    return [value for _, value in sorted(numbered)]


def _complaints(end: End) -> list[str]:
    said = []
    if not (end.place.startswith("/") or is_address(end.place.replace(":*", ":1"))):
        said.append(f"{end.shown} names neither host:port nor a /path, as in tcp or ipc")
    if not 0 < end.number("high_water_mark") < 2**31:  # an int of C
        said.append("high_water_mark is a number of messages from 1 on")
    return said
