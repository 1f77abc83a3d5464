"""`from = "statsd://…"` and `from = "udp://…"`: datagrams to messages. Called by `bridges.runner`.

[edges.bridges.metrics]                     [edges.bridges.sensors]
from = "statsd://127.0.0.1:8125"            from = "udp://10.1.0.4:9999"
to = "topic:metrics"                        to = "topic:sensors"
                                            allow_from = ["10.1.0.0/16"]
                                            key = "sender"
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from headwater.edges import counts
from headwater.edges.bridges.contract import BridgeBroken, End, Inbound, Message
from headwater.edges.udp.addresses import BadAddress, allowing, complaints, networks, place_of
from headwater.edges.udp.batches import Datagram, host_of
from headwater.edges.udp.receiver import Receiving
from headwater.edges.udp.sockets import buffer_of, listening
from headwater.value_forms import is_whole

STATSD_PORT = 8125
_LOSES = (
    "whatever the network, the kernel (its buffer is full) or the edges (they are away, or the log does not "
    "keep up) cannot take: the sender is never told. What is lost here is counted: dropped"
)


class _Datagrams(Inbound):
    LOSES = _LOSES
    OPTIONS: ClassVar[Mapping[str, object]] = {
        "allow_from": [],
        "receive_buffer_bytes": 8 * 1024**2,
        "inbox_bytes": 64 * 1024**2,
    }
    PORT: ClassVar[int | None] = None

    def __init__(self, end: End) -> None:
        super().__init__(end)
        self._receiving: Receiving | None = None
        self._listens = ""
        self._buffer_bytes = 0

    @classmethod
    def check(cls, end: End) -> list[str]:
        try:
            host, _ = place_of(end.place, cls.PORT)
        except BadAddress as error:
            return [str(error)]
        small = [
            f"{name} = {end.number(name)}: at least 65536, the size of one datagram"
            for name in ("receive_buffer_bytes", "inbox_bytes")
            if end.number(name) < 65_536
        ]
        if not is_whole(end.number("receive_buffer_bytes"), 0):
            small.append("receive_buffer_bytes is more than a socket can be asked for: 2147483647")
        return complaints(host, end.texts("allow_from")) + small

    async def open(self) -> None:
        host, port = place_of(self.end.place, self.PORT)
        made = listening(host, port, self.end.number("receive_buffer_bytes"))
        self._listens = "{}:{}".format(*made.getsockname())
        self._buffer_bytes = buffer_of(made)
        may_send = allowing(networks(self.end.texts("allow_from")))
        self._receiving = Receiving(self.end.bridge, made, self.end.number("inbox_bytes"), may_send)

    async def receive(self) -> Sequence[Message]:
        assert self._receiving is not None, "open() comes first"
        while True:
            try:
                batch = await self._receiving.take()
            except OSError as error:
                raise BridgeBroken(f"{self.end.address}: {error.strerror}") from error
            if messages := self.messages(batch):
                return messages

    @abstractmethod
    def messages(self, batch: Sequence[Datagram]) -> list[Message]: ...

    async def close(self) -> None:
        receiving, self._receiving = self._receiving, None
        if receiving is not None:
            await receiving.close()

    def status(self) -> Mapping[str, object]:
        receiving = self._receiving
        if receiving is None:
            return {}
        return {
            "listens": self._listens,
            "receive_buffer_bytes": self._buffer_bytes,
            "datagrams": receiving.counts.datagrams,
            "dropped_by_kernel": "unknown"
            if receiving.drops.total is None
            else receiving.drops.total,
            "dropped_by_inbox": receiving.counts.dropped_by_inbox,
            "not_allowed": receiving.counts.not_allowed,
            "inbox_bytes": receiving.waiting_bytes,
        }


class Datagrams(_Datagrams):
    """A datagram is a record, byte for byte; with `key = "sender"`, the sender's address is its key."""

    OPTIONS: ClassVar[Mapping[str, object]] = {**_Datagrams.OPTIONS, "key": "none"}

    @classmethod
    def check(cls, end: End) -> list[str]:
        said = super().check(end)
        if end.text("key") not in ("none", "sender"):
            said.append(f'key = {end.text("key")!r}: there are "none" and "sender"')
        return said

    def messages(self, batch: Sequence[Datagram]) -> list[Message]:
        if self.end.text("key") == "sender":
            return [Message(value, host_of(sender).encode()) for value, sender in batch]
        return [Message(value) for value, _ in batch]


class StatsD(_Datagrams):
    """A line is a record (`statsd`), its metric's name the key; what is no line goes to the dead letters."""

    PORT = STATSD_PORT

    def messages(self, batch: Sequence[Datagram]) -> list[Message]:
        from headwater.edges.udp.statsd import Malformed, lines, metrics

        found: list[Message] = []
        for datagram, sender in batch:
            for line in lines(datagram):
                try:
                    found += [Message(value, key) for key, value in metrics(line)]
                except Malformed as error:
                    found.append(_refused(line, sender, str(error)))
        return found


def _refused(line: bytes, sender: bytes, why: str) -> Message:
    counts.refused("statsd", "malformed")
    return Message(line, headers=[("udp-sender", host_of(sender).encode())], refused=why)
