"""`from = "multicast://…"` and `to = "multicast://…"`. Called by `bridges.runner`.

[edges.bridges.prices]                      [edges.bridges.prices_out]
from = "multicast://239.1.2.3:5004"         from = "topic:prices"
to = "topic:prices"                         to = "multicast://239.1.2.3:5004"
interface = "10.1.0.4"                      interface = "10.1.0.3"
secret = "${PRICES_SECRET}"                 secret = "${PRICES_SECRET}"
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from headwater.edges import counts
from headwater.edges.bridges.contract import (
    BridgeBroken,
    End,
    Inbound,
    Message,
    Outbound,
    Record,
    Refusal,
)
from headwater.edges.multicast import packets, sockets
from headwater.edges.multicast.addresses import LOOPBACK, group_of
from headwater.edges.multicast.listener import Listening
from headwater.edges.multicast.receiver import Gap, Patience
from headwater.edges.multicast.resumption import SEQUENCE, SESSION, Reached, message_of, resumed
from headwater.edges.multicast.sender import Holding
from headwater.edges.multicast.sessions import Sessions
from headwater.edges.multicast.speaker import Speaking
from headwater.edges.udp.addresses import BadAddress
from headwater.value_forms import is_whole

_COMMON: Mapping[str, Any] = {"interface": LOOPBACK, "secret": None, "allow_from": []}
_LOST = counts.counter(
    "headwater_multicast_lost_total", "Messages that will never come, named in gaps", ("bridge",)
)


def _complaints(end: End) -> list[str]:
    try:
        group_of(end.place, end.options)
    except BadAddress as error:
        return [str(error)]
    return []


class Listener(Inbound):
    """From a group into a topic: in order, each message once, and gaps into TOPIC.gaps."""

    LOSES = (
        "what the sender no longer holds when it is asked for it again, or took with it when it died: each "
        "message is named in TOPIC.gaps"
    )
    OPTIONS: ClassVar[Mapping[str, object]] = {
        **_COMMON,
        "receive_buffer_bytes": sockets.BUFFER_BYTES,
        "silence_seconds": 5.0,
    }

    def __init__(self, end: End) -> None:
        super().__init__(end)
        self._listening: Listening | None = None
        self._lost = 0

    @classmethod
    def check(cls, end: End) -> list[str]:
        said = _complaints(end)
        given = end.number("receive_buffer_bytes")
        if not is_whole(given, packets.PACKET_BYTES_MAX):
            said.append(f"receive_buffer_bytes = {given}: from 65507, one packet, to 2147483647")
        if end.seconds("silence_seconds") <= 0:
            said.append(f"silence_seconds = {end.seconds('silence_seconds')}: above 0, as in 5.0")
        return said

    async def open(self) -> None:
        group = group_of(self.end.place, self.end.options)
        known = {}
        if self.end.log is not None:
            known = await asyncio.to_thread(resumed, self.end.log, self.end.topic)
        buffer_bytes = self.end.number("receive_buffer_bytes")
        hearing = sockets.hearing(group, buffer_bytes)
        try:
            asking = sockets.asking(group, buffer_bytes)
        except BaseException:
            hearing.close()
            raise
        patience = Patience(silence_s=self.end.seconds("silence_seconds"))
        sessions = Sessions(patience, group.secret, known)
        self._listening = Listening(self.end.bridge, group, (hearing, asking), sessions)

    async def receive(self) -> Sequence[Message]:
        assert self._listening is not None, "open() comes first"
        try:
            events = await self._listening.take()
        except OSError as error:
            raise BridgeBroken(f"{self.end.address}: {error.strerror}") from error
        for event in events:
            if isinstance(event, Gap):
                self._lost += event.last - event.first + 1
                _LOST.labels(self.end.bridge).inc(event.last - event.first + 1)
        return [message_of(event) for event in events]

    async def close(self) -> None:
        listening, self._listening = self._listening, None
        if listening is not None:
            await listening.close()

    def status(self) -> Mapping[str, object]:
        listening = self._listening
        if listening is None:
            return {}
        drops = listening.drops.total
        return {
            **listening.sessions.status(),
            "asks": listening.asks,
            "lost": self._lost,
            "not_allowed": listening.not_allowed,
            "dropped_by_kernel": "unknown" if drops is None else drops,
        }


class Speaker(Outbound):
    """From a topic to a group. The position goes on when a record is sent, whoever hears it."""

    LOSES = (
        "nothing for receivers that ask within hold_seconds; when it dies suddenly, what was lost on the way "
        "and not yet repaired, which receivers name in their gaps once it is back"
    )
    OPTIONS: ClassVar[Mapping[str, object]] = {
        **_COMMON,
        "ttl": 1,
        "hold_seconds": 2.0,
        "hold_bytes": 64 * 1024**2,
    }

    def __init__(self, end: End) -> None:
        super().__init__(end)
        self._speaking: Speaking | None = None
        self._reached: Reached | None = None

    @classmethod
    def check(cls, end: End) -> list[str]:
        said = _complaints(end)
        if end.seconds("hold_seconds") < 0:
            said.append(f"hold_seconds = {end.seconds('hold_seconds')}: from 0 on, as in 2.0")
        if end.number("hold_bytes") < packets.PACKET_BYTES_MAX:
            said.append(f"hold_bytes = {end.number('hold_bytes')}: at least 65507, one packet")
        return said

    async def open(self) -> None:
        group = group_of(self.end.place, self.end.options)
        holding = Holding(
            held_bytes_max=self.end.number("hold_bytes"),
            hold_s=self.end.seconds("hold_seconds"),
            secret=group.secret,
        )
        previous: packets.Ranges = ()
        if self.end.log is not None:
            self._reached = Reached(self.end.log, self.end.topic, self.end.bridge)
            previous = await asyncio.to_thread(self._reached.read)
        made = sockets.speaking(group)
        self._speaking = Speaking(self.end.bridge, group, made, holding, previous)

    async def send(self, records: Sequence[Record]) -> Sequence[Refusal]:
        assert self._speaking is not None, "open() comes first"
        try:
            refused = await self._speaking.send([_carried(record) for record in records])
        except OSError as error:
            raise BridgeBroken(f"{self.end.address}: {error.strerror}") from error
        if self._reached is not None:
            sender = self._speaking.sender
            await asyncio.to_thread(self._reached.write, sender.session, sender.last)
        return [Refusal(records[number], why) for number, why in refused]

    async def close(self) -> None:
        speaking, self._speaking = self._speaking, None
        if speaking is not None:
            await speaking.close()

    def status(self) -> Mapping[str, object]:
        speaking = self._speaking
        if speaking is None:
            return {}
        sender = speaking.sender
        return {
            "session": f"{sender.session:016x}",
            "last": sender.last,
            "oldest_held": sender.oldest,
            "asks": speaking.asks,
            "repaired": sender.repaired,
            "asked_too_late": sender.expired,
        }


def _carried(record: Record) -> packets.Message:
    """Without the numbers of another session, where the record itself came by multicast."""
    headers = tuple(each for each in record.headers if each[0] not in (SESSION, SEQUENCE))
    return packets.Message(record.value, record.key, headers, record.timestamp_ms)
