"""The positions that captures have stored, read from the log; and the log's errors in our words.

Called by `writer`, which stores them, and by whoever shows them. The topic's layout is told there.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from headwater.capture.errors import CaptureFenced, Interrupted, LogRefused
from headwater.client import offsets
from headwater.client.cluster import EARLIEST, LATEST
from headwater.client.librdkafka import (
    FENCED,
    AdminClient,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)

POSITIONS = "__headwater_capture"
TIMEOUT_S = 30.0
TRANSACTION_TIMEOUT_MS = 60_000
_FIRST_LOOK = 1_000
_TOO_LARGE = (
    "raise the topic's max.message.bytes, and socket.request.max.bytes of the broker; or lower "
    "record_bytes_max of the capture, so that such a row is set aside"
)
_FOR_GOOD = {
    KafkaError.MSG_SIZE_TOO_LARGE: _TOO_LARGE,
    KafkaError.RECORD_LIST_TOO_LARGE: _TOO_LARGE,
    KafkaError.INVALID_TIMESTAMP: "raise the topic's message.timestamp.after.max.ms or .before.max.ms, "
    "and compare the clocks of this machine and of the broker",
    KafkaError.INVALID_RECORD: "a compacted topic takes no record without a key: see its cleanup.policy",
    KafkaError.POLICY_VIOLATION: "the broker's policy forbids it: ask who runs it",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "the user lacks the right to write: see headwater acls",
}
"""What the same batch would be told again, however often it is sent; and what to do."""


def read_positions(
    bootstrap: str, names: Iterable[str], client: Mapping[str, str] | None = None
) -> dict[str, dict[str, Any]]:
    """The stored positions, with their times, for `status`; fences nobody."""
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0, **(client or {})}
    admin = AdminClient(settings)
    found = {}
    with plainly("the positions cannot be read"):
        if POSITIONS not in admin.list_topics(timeout=TIMEOUT_S).topics:
            return {}
        for name in names:
            value = last_value(settings, admin, name)
            if value is not None:
                found[name] = json.loads(value)
    return found


def last_value(settings: Mapping[str, Any], admin: AdminClient, name: str) -> bytes | None:
    """The last committed record of that key. The tail is read first: the topic may be long."""
    first, end = decided(admin, POSITIONS)
    look = _FIRST_LOOK
    while True:
        begin = max(first, end - look)
        values = [
            v for k, v in records_between(settings, POSITIONS, begin, end) if k == name.encode()
        ]
        if values or begin == first:
            return values[-1] if values else None
        look *= 10


def decided(admin: AdminClient, topic: str) -> tuple[int, int]:
    """Where the topic begins and ends, once every transaction before that end is decided."""
    place = (topic, 0)

    def offset(at: int, *, committed: bool = False) -> int:
        return offsets.listed(admin, [place], at, TIMEOUT_S, committed=committed)[place]

    end = offset(LATEST)
    deadline = time.monotonic() + 2 * TRANSACTION_TIMEOUT_MS / 1000
    while offset(LATEST, committed=True) < end:
        if time.monotonic() > deadline:
            raise Interrupted(f"a transaction of another capture stays open in {topic}")
        time.sleep(0.02)
    return offset(EARLIEST), end


def records_between(
    settings: Mapping[str, Any], topic: str, begin: int, end: int
) -> Iterator[tuple[bytes | None, bytes | None]]:
    if begin >= end:
        return
    reader = Consumer(
        {
            **settings,
            "group.id": "headwater-capture",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 10,  # the end is what we wait for, not more
        }
    )
    try:
        reader.assign([TopicPartition(topic, 0, begin)])
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            for message in reader.consume(1000, 0.02):
                error = message.error()
                if error is None:
                    yield message.key(), message.value()
                    deadline = time.monotonic() + TIMEOUT_S
                elif error.code() == KafkaError._PARTITION_EOF:
                    return  # nothing before the end is undecided, so all of it has come
                else:
                    raise KafkaException(error)
            if time.monotonic() > deadline:
                raise Interrupted(f"{topic} could not be read to its end")
    finally:
        reader.close()


@contextlib.contextmanager
def plainly(what: str) -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        said = error.args[0]
        if said.code() in FENCED:
            raise CaptureFenced(
                "another run of this capture has taken over",
                hint="let only one run per capture; stop this one",
            ) from None
        if said.code() in _FOR_GOOD:
            raise LogRefused(
                f"{what}, and would not take it again: {said.str().rstrip('.')} ({said.name()})",
                hint=_FOR_GOOD[said.code()],
            ) from None
        raise Interrupted(f"{what}: {said.str().rstrip('.')} ({said.name()})") from None
