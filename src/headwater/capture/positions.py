"""The positions that captures have stored, read from the log; and the log's errors in our words.

Called by `writer`, which stores them, and by whoever shows them. The topic's layout is told there.
"""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.capture.errors import (
    CaptureError,
    CaptureFenced,
    Interrupted,
    LogRefused,
    WriterExpired,
)
from headwater.capture.position_records import PartsMissing, Stored, last
from headwater.client import offsets
from headwater.client.cluster import EARLIEST, LATEST
from headwater.client.errors import ClientError
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
    KafkaError.INVALID_RECORD: "a compacted topic takes no record without a key, and a topic with a schema "
    "none that does not fit it: see its settings, and whether the user may describe them",
    KafkaError.POLICY_VIOLATION: "the broker's policy forbids it: ask who runs it",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "the user lacks the right: see headwater acls",
}
"""What the same batch would be told again, however often it is sent; and what to do."""


@dataclass
class Run:
    """One run of a capture, over all its writers. Of two, the capture is that one's which claimed it last."""

    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    has_claimed: bool = False

    def check(self, stored: Stored | None) -> None:
        """CaptureFenced where another has claimed it since. What stored no run is of an earlier version."""
        by = None if stored is None else stored.get("run")
        if self.has_claimed and by not in (None, self.id):
            raise CaptureFenced(
                "another run of this capture has taken over",
                hint="let only one run per capture; stop this one",
            )


def read_positions(
    bootstrap: str, names: Iterable[str], client: Mapping[str, str] | None = None
) -> dict[str, Stored]:
    """The stored positions, with their times, for `status`; fences nobody."""
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0, **(client or {})}
    admin = AdminClient(settings)
    found = {}
    with plainly("the positions cannot be read"):
        if POSITIONS not in admin.list_topics(timeout=TIMEOUT_S).topics:
            return {}
        for name in names:
            stored = last_stored(settings, name, decided(admin, POSITIONS))
            if stored is not None and stored["position"] is not None:
                found[name] = stored
    return found


def last_stored(settings: Mapping[str, Any], name: str, within: tuple[int, int]) -> Stored | None:
    """The last committed record of that capture. The tail is read first: the topic may be long."""
    first, end = within
    look = _FIRST_LOOK
    while True:
        begin = max(first, end - look)
        with contextlib.suppress(PartsMissing):
            found = last(name, records_between(settings, POSITIONS, begin, end))
            if found is not None or begin == first:
                return found
        if begin == first:
            raise CaptureError(
                f"the position of {name} in {POSITIONS} is not whole",
                hint="start again with a new snapshot: headwater capture run NAME --resnapshot",
            )
        look *= 10


def decided(
    admin: AdminClient, topic: str, stopping: threading.Event | None = None, partition: int = 0
) -> tuple[int, int]:
    """Where the partition begins and ends, once every transaction before that end is decided."""
    place = topic, partition
    end = _offset(admin, place, LATEST)
    deadline = time.monotonic() + 2 * TRANSACTION_TIMEOUT_MS / 1000
    while _offset(admin, place, LATEST, committed=True) < end:
        if time.monotonic() > deadline or (stopping is not None and stopping.is_set()):
            raise Interrupted(f"a transaction of another capture stays open in {topic}")
        time.sleep(0.02)
    return _offset(admin, place, EARLIEST), end


def decided_by_now(admin: AdminClient, topic: str) -> tuple[int, int]:
    """Where the topic begins, and where its first transaction that is open does."""
    place = topic, 0
    return _offset(admin, place, EARLIEST), _offset(admin, place, LATEST, committed=True)


def _offset(admin: AdminClient, place: offsets.Place, at: int, *, committed: bool = False) -> int:
    return offsets.listed(admin, [place], at, TIMEOUT_S, committed=committed)[place]


def records_between(
    settings: Mapping[str, Any], topic: str, begin: int, end: int, partition: int = 0
) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Committed records, as key and value."""
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
        reader.assign([TopicPartition(topic, partition, begin)])
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            for message in reader.consume(1000, 0.02):
                error = message.error()
                if error is None:
                    if (message.offset() or 0) >= end:
                        return
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


def read_topic(
    bootstrap: str, topic: str, client: Mapping[str, str] | None = None
) -> list[tuple[bytes | None, bytes | None]]:
    """Every committed record of a topic with one partition, as key and value; [] if there is none."""
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0, **(client or {})}
    admin = AdminClient(settings)
    with plainly(f"{topic} cannot be read"):
        if topic not in admin.list_topics(timeout=TIMEOUT_S).topics:
            return []
        return list(records_between(settings, topic, *decided(admin, topic)))


@contextlib.contextmanager
def plainly(what: str) -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        raise Interrupted(f"{what}: {error}", hint=error.hint) from error
    except KafkaException as error:
        said = error.args[0]
        if said.code() in FENCED:
            raise WriterExpired(
                f"{what}: its transaction was open for more than {TRANSACTION_TIMEOUT_MS // 1000} s, "
                "or another run begins"
            ) from None
        if said.code() in _FOR_GOOD:
            raise LogRefused(
                f"{what}, and would not take it again: {said.str().rstrip('.')} ({said.name()})",
                hint=_FOR_GOOD[said.code()],
            ) from None
        raise Interrupted(f"{what}: {said.str().rstrip('.')} ({said.name()})") from None
