"""MQTT: a subscription in, publications out. Versions 5 and 3.1.1, with TLS as `mqtts://`.

    from = "mqtt://user:${PASSWORD}@host/sensors/#"      as MQTT spells filters; $share/GROUP/… too
    to   = "mqtt://host/commands/{key}"                  {key} and {topic} of the record

A message and a record:

    key        the MQTT topic (key = "none": no key)
    headers    mqtt-topic; mqtt-retained; and from MQTT 5: content-type, mqtt-response-topic,
               mqtt-correlation-data and the user properties
    out        the payload is the value (empty for a tombstone); headers are user properties, and
               headwater-id is the same whenever a record is sent again

At QoS 1 the broker keeps a message until we acknowledge it, and we do when the log has it. The session
outlives us (`session_hours`), so what is published meanwhile waits at the broker.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from headwater.edges.bridges.addresses import filled
from headwater.edges.bridges.contract import End, Inbound, Message, Outbound, Record, Refusal
from headwater.edges.bridges.mqtt_connection import OPTIONS, Connection, address_of, complaints

if TYPE_CHECKING:
    from paho.mqtt.client import MQTTMessage

BATCH = 1000
WAITING_MAX = 10_000
"""Messages received and not yet taken; only those of QoS 0 can exceed it, and are dropped and counted."""
CONFIRM_TIMEOUT_S = 60.0
# Refused for good, rather than for now (MQTT 5, section 3.4.2.1).
_NEVER = {0x87, 0x90, 0x95, 0x99}


class Subscription(Inbound):
    """What a broker has for a filter."""

    LOSES = (
        "nothing at QoS 1 that the broker has accepted and keeps (its own limits and its disk decide: "
        "Mosquitto saves every half hour unless autosave_interval says otherwise); what is published at "
        "QoS 0 while the edges are away; packets of more than 16 MiB, which an MQTT 5 broker drops for us; "
        "duplicates are possible after a crash"
    )
    OPTIONS: ClassVar[Mapping[str, object]] = {**OPTIONS, "key": "topic", "session_hours": 168}
    REDELIVERS = True

    @classmethod
    def check(cls, end: End) -> list[str]:
        why = "at QoS 2 the broker forgets a message before the log can have it"
        said = complaints(end, (0, 1), why)
        if end.text("key") not in ("topic", "none"):
            said.append(f'key = {end.text("key")!r} is neither "topic" nor "none"')
        if not 0 <= end.number("session_hours") <= 24 * 365:
            said.append("session_hours is 0 to 8760; 0: nothing is kept for us while we are away")
        return said

    async def open(self) -> None:
        self._waiting: deque[MQTTMessage] = deque()
        self._came = asyncio.Event()
        self._dropped = 0
        session_s = self.end.number("session_hours") * 3600
        self._connection = Connection(self.end, session_s=session_s)
        self._connection.client.on_message = lambda _, __, message: self._on_message(message)
        await self._connection.open()
        self._connection.broken.add_done_callback(lambda _: self._came.set())
        pattern = address_of(self.end).path
        await self._connection.subscribe(pattern, self.end.number("qos"))

    def _on_message(self, message: MQTTMessage) -> None:
        """In paho's thread; a deque may be used from two."""
        if message.qos == 0 and len(self._waiting) >= WAITING_MAX:
            self._dropped += 1
            return
        self._waiting.append(message)
        if len(self._waiting) == 1 or not self._came.is_set():
            self._connection.later(self._came.set)

    async def receive(self) -> Sequence[Message]:
        while not self._waiting:
            self._connection.check()
            self._came.clear()
            if not self._waiting:
                await self._came.wait()
        taken = [self._waiting.popleft() for _ in range(min(len(self._waiting), BATCH))]
        keyed = self.end.text("key") == "topic"
        return [message_of(each, keyed=keyed) for each in taken]

    async def stored(self, messages: Sequence[Message]) -> None:
        self._connection.check()
        for message in messages:
            number, qos = cast(tuple[int, int], message.token)
            if qos:
                self._connection.client.ack(number, qos)

    async def close(self) -> None:
        if hasattr(self, "_connection"):
            await self._connection.close()

    def status(self) -> Mapping[str, object]:
        return {"dropped_at_qos_0": self._dropped} if hasattr(self, "_dropped") else {}


class Publication(Outbound):
    """Publishes each record, and waits for the broker's acknowledgement."""

    LOSES = (
        "nothing on the way to the broker (QoS 1: twice after a crash; QoS 2: likewise, as the second "
        "sending is a new message to MQTT); a subscriber gets what its own session is promised"
    )
    OPTIONS: ClassVar[Mapping[str, object]] = {**OPTIONS, "retain": False}
    CONFIRMS = True

    @classmethod
    def check(cls, end: End) -> list[str]:
        return complaints(end, (1, 2), "at QoS 0 nobody confirms anything")

    async def open(self) -> None:
        self._open: dict[int, Record] = {}
        self._refused: list[Refusal] = []
        self._temporary: str | None = None
        self._heard = asyncio.Event()
        self._connection = Connection(self.end)
        client = self._connection.client
        client.on_publish = lambda _, __, number, reason, ___: self._connection.later(
            self._acknowledged, number, reason
        )
        await self._connection.open()
        self._connection.broken.add_done_callback(lambda _: self._heard.set())

    async def send(self, records: Sequence[Record]) -> Sequence[Refusal]:
        self._refused = []
        for record in records:
            while len(self._open) >= self._connection.window:
                await self._acknowledgement()
            self._publish(record)
        while self._open:
            await self._acknowledgement()
        return self._refused

    async def _acknowledgement(self) -> None:
        """Wait for one. They are heard on this loop: none can come before its number is noted."""
        self._heard.clear()
        self._connection.check()
        try:
            async with asyncio.timeout(CONFIRM_TIMEOUT_S):
                await self._heard.wait()
        except TimeoutError:
            raise self._connection.failure("did not acknowledge in time") from None
        self._connection.check()
        if self._temporary is not None:
            raise self._connection.failure(f"did not take a message: {self._temporary}")

    def _publish(self, record: Record) -> None:
        self._connection.check()
        try:
            topic, value = filled(address_of(self.end).path, record), record.value or b""
            given = properties_of(record) if self._connection.is_v5 else None
            most = self._connection.packet_bytes_max
            if most and given and packet_bytes(topic, value, len(given.pack())) > most:
                raise ValueError(f"the MQTT broker takes packets of {most} bytes")
            info = self._connection.client.publish(
                topic, value, self.end.number("qos"), self.end.flag("retain"), given
            )
        except ValueError as error:  # a topic with wildcards, or that is no text; too large
            self._refused.append(Refusal(record, f"MQTT cannot carry it: {error}"))
            return
        self._open[info.mid] = record

    def _acknowledged(self, number: int, reason: Any) -> None:
        record = self._open.pop(number, None)
        if record is not None and reason is not None and reason.is_failure:
            if reason.value in _NEVER:
                self._refused.append(Refusal(record, f"the MQTT broker refused it: {reason}"))
            else:
                self._temporary = str(reason)
        self._heard.set()

    async def close(self) -> None:
        if hasattr(self, "_connection"):
            await self._connection.close()


def message_of(message: MQTTMessage, *, keyed: bool) -> Message:
    headers: list[tuple[str, bytes | None]] = []
    topic = message._topic  # as bytes: a topic that is no UTF-8 would raise in `.topic`
    headers.append(("mqtt-topic", topic))
    if message.retain:
        headers.append(("mqtt-retained", b"true"))
    given, id = message.properties, None
    if given is not None:
        plain = (("ContentType", "content-type"), ("ResponseTopic", "mqtt-response-topic"))
        headers += [
            (ours, getattr(given, theirs).encode())
            for theirs, ours in plain
            if hasattr(given, theirs)
        ]
        if hasattr(given, "CorrelationData"):
            headers.append(("mqtt-correlation-data", bytes(given.CorrelationData)))
        own = getattr(given, "UserProperty", [])
        headers += [(name, value.encode()) for name, value in own]
        id = next((value for name, value in own if name in ("message-id", "headwater-id")), None)
    token = (message.mid, message.qos)
    return Message(bytes(message.payload), topic if keyed else None, headers, id=id, token=token)


def packet_bytes(topic: str, value: bytes, properties_bytes: int) -> int:
    """Of a PUBLISH of MQTT 5 with a packet identifier: one that is too large ends the connection."""
    behind = 2 + len(topic.encode()) + 2 + properties_bytes + len(value)
    length = next(size for size in range(1, 6) if behind < 128**size)
    return 1 + length + behind


def properties_of(record: Record) -> Any:
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    given: Any = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    own = [("headwater-id", record.id)]
    for name, value in record.headers:
        text = (value or b"").decode("utf-8", "backslashreplace")
        if name == "content-type":
            given.ContentType = text
        elif name not in ("mqtt-topic", "mqtt-retained", "headwater-id"):
            own.append((name, text))
    given.UserProperty = own
    return given
