"""The few Kafka messages that the raw client needs, packed by hand and sent over one socket.

`raw`, `latency`, `start` and `growth` use it. Hand-written because a general client would cost more
than the brokers that are measured. Versions are those that today's clients choose, in the
"flexible" encoding (compact lengths, tagged fields):

    Produce 11 · Fetch 16 · Metadata 12 · CreateTopics 7 · DeleteTopics 6
"""

from __future__ import annotations

import socket
import struct
import time
import uuid
from collections.abc import Sequence
from types import TracebackType

PRODUCE, FETCH, METADATA, CREATE_TOPICS, DELETE_TOPICS = (0, 11), (1, 16), (3, 12), (19, 7), (20, 6)
FETCH_PARTITION_BYTES_MAX = 1 << 20
"""What the Java client and librdkafka ask for by default."""
_DEADLINE_S = 60.0


class Refused(Exception):
    """The broker answered with an error code."""


def compact(data: bytes | str) -> bytes:
    raw = data.encode() if isinstance(data, str) else data
    return _uvarint(len(raw) + 1) + raw


def _array(items: Sequence[bytes]) -> bytes:
    return _uvarint(len(items) + 1) + b"".join(items)


def _uvarint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def frame(api: tuple[int, int], body: bytes) -> bytes:
    """The whole request. The correlation id may be constant: answers come in order."""
    header = struct.pack(">hhih", *api, 7, 5) + b"bench" + b"\0"
    return struct.pack(">i", len(header) + len(body)) + header + body


def produce_frame(topic: str, batches: dict[int, bytes], acks: int = -1) -> bytes:
    """One batch for each partition named, acknowledged by all replicas."""
    partitions = [struct.pack(">i", each) + compact(data) + b"\0" for each, data in batches.items()]
    topics = _array([compact(topic) + _array(partitions) + b"\0"])
    return frame(PRODUCE, b"\0" + struct.pack(">hi", acks, 30_000) + topics + b"\0")


class FetchFrame:
    """A fetch of one partition, without a session; only the offset changes from call to call."""

    def __init__(self, topic_id: bytes, partition: int, max_wait_ms: int = 500) -> None:
        before = struct.pack(">iiibii", max_wait_ms, 1, 50 << 20, 0, 0, -1)
        position = struct.pack(
            ">iiqiqi", partition, -1, 0, -1, -1, FETCH_PARTITION_BYTES_MAX
        )  # partition, leader epoch, offset, last fetched epoch, log start offset, bytes
        topics = _array([topic_id + _array([position + b"\0"]) + b"\0"])
        self.data = bytearray(frame(FETCH, before + topics + _array([]) + compact("") + b"\0"))
        self._offset_at = self.data.index(position) + 8

    def at(self, offset: int) -> bytearray:
        struct.pack_into(">q", self.data, self._offset_at, offset)
        return self.data


class Cursor:
    """Reads an answer from front to back."""

    def __init__(self, data: memoryview, position: int = 0) -> None:
        self.data, self.position = data, position

    def unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        values = layout.unpack_from(self.data, self.position)
        self.position += layout.size
        return values

    def uvarint(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def bytes(self) -> memoryview:
        size = max(self.uvarint() - 1, 0)
        self.position += size
        return self.data[self.position - size : self.position]

    def skip_tags(self) -> None:
        for _ in range(self.uvarint()):
            self.uvarint()
            size = self.uvarint()
            self.position += size


_PRODUCED = struct.Struct(">ihqqq")
_FETCHED = struct.Struct(">ihqqq")
_I16, _I32, _FETCH_TOP = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">ihi")


def check_produced(answer: memoryview) -> None:
    """Raise Refused unless every partition took its batch."""
    cursor = Cursor(answer)
    for _ in range(cursor.uvarint() - 1):
        cursor.bytes()
        for _ in range(cursor.uvarint() - 1):
            _, error, *_ = cursor.unpack(_PRODUCED)
            if error:
                raise Refused(f"Produce was answered with error code {error}")
            for _ in range(cursor.uvarint() - 1):  # record errors
                cursor.unpack(_I32)
                cursor.bytes()
                cursor.skip_tags()
            cursor.bytes()
            cursor.skip_tags()
        cursor.skip_tags()


def fetched_records(answer: memoryview) -> memoryview:
    """The record bytes of the one partition that a FetchFrame asked for."""
    cursor = Cursor(answer)
    _, error, _ = cursor.unpack(_FETCH_TOP)
    if not error and cursor.uvarint() > 1:
        cursor.position += 16
        cursor.uvarint()
        _, error, *_ = cursor.unpack(_FETCHED)
        for _ in range(cursor.uvarint() - 1):  # aborted transactions
            cursor.position += 16
            cursor.skip_tags()
        cursor.unpack(_I32)
        if not error:
            return cursor.bytes()
    if error:
        raise Refused(f"Fetch was answered with error code {error}")
    return memoryview(b"")


class Connection:
    """One socket. Answers are read into one buffer, which the next answer overwrites."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=_DEADLINE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._size = bytearray(4)
        self._buffer = memoryview(bytearray(4 << 20))
        self.send = self._socket.sendall

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._socket.close()

    def receive(self) -> memoryview:
        """The next answer's body, after correlation id and header tags."""
        self._fill(memoryview(self._size))
        size = int.from_bytes(self._size, "big")
        if size > len(self._buffer):
            self._buffer = memoryview(bytearray(size))
        answer = self._buffer[:size]
        self._fill(answer)
        return answer[5:]

    def _fill(self, into: memoryview) -> None:
        done = 0
        while done < len(into):
            count = self._socket.recv_into(into[done:])
            if not count:
                raise Refused("the broker closed the connection")
            done += count

    def call(self, api: tuple[int, int], body: bytes) -> Cursor:
        self.send(frame(api, body))
        return Cursor(self.receive())


def create_topic(connection: Connection, name: str, partitions: int) -> bytes:
    """Create a topic, wait until every partition serves, and return the topic's id."""
    topic = compact(name) + struct.pack(">ih", partitions, 1) + _array([]) + _array([]) + b"\0"
    cursor = connection.call(
        CREATE_TOPICS, _array([topic]) + struct.pack(">i?", 30_000, False) + b"\0"
    )
    cursor.unpack(_I32)
    cursor.uvarint()
    cursor.bytes()
    topic_id = bytes(cursor.data[cursor.position : cursor.position + 16])
    cursor.position += 16
    (error,) = cursor.unpack(_I16)
    if error:
        raise Refused(f"CreateTopics was answered with error code {error}")
    for partition in range(partitions):
        _wait_until_served(connection, FetchFrame(topic_id, partition, max_wait_ms=0))
    return topic_id


def _wait_until_served(connection: Connection, fetch: FetchFrame) -> None:
    """Kafka answers "unknown topic" for a moment after it has said that the topic is there."""
    deadline = time.monotonic() + _DEADLINE_S
    while True:
        connection.send(fetch.at(0))
        try:
            fetched_records(connection.receive())
            return
        except Refused:
            if time.monotonic() > deadline:
                raise


def delete_topic(connection: Connection, name: str) -> None:
    """Ask for it; the files go later, in both brokers."""
    topic = compact(name) + uuid.UUID(int=0).bytes + b"\0"
    connection.call(DELETE_TOPICS, _array([topic]) + struct.pack(">i", 30_000) + b"\0")


def answers_metadata(connection: Connection) -> bool:
    """Whether the broker names at least one broker when asked for no topic."""
    cursor = connection.call(METADATA, _array([]) + b"\0\0\0")
    cursor.unpack(_I32)
    return cursor.uvarint() > 1
