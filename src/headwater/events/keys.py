"""The keys of subjects: one for each, in a compacted topic; destroying it makes what it sealed unreadable.

    topic headwater.keys, one partition, compacted
        key    SUBJECT "\\0" KEY ID       value  32 random bytes, base64; with a master key: sealed by it
        a record without a value: destroyed

A subject may have several keys, where two processes made one at the same time. Who has read a key keeps it
in memory, and looks for tombstones before it uses one (at most `refresh_s` old). `forget` writes the
tombstones; the command `headwater forget` also takes the key's record out of the log's files.

Invariant: a key must be used only if every offset from its record on has been seen. Compaction removes
tombstones after a day (delete.retention.ms); who finds offsets missing has slept too long, and reads the
topic from its start.
"""

from __future__ import annotations

import os
import uuid
from base64 import b64decode, b64encode
from threading import Lock
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from headwater.events import client as clients
from headwater.events import clock, reading
from headwater.events.errors import EventsError
from headwater.events.personal import Personal
from headwater.spark.connect import Cluster

TOPIC = "headwater.keys"
_NONCE = 12
_TIMEOUT_S = 30.0
_CONFIG = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.ms": "3600000",
}


class _Known(NamedTuple):
    key: bytes
    offset: int


class Keys:
    """The keys of all subjects. May be used from several threads."""

    def __init__(
        self,
        bootstrap: str,
        *,
        client: clients.Client = None,
        topic: str = TOPIC,
        master: bytes | None = None,
        refresh_s: float = 1.0,
    ) -> None:
        quiet = clients.for_confluent(bootstrap, client)
        self.topic = topic
        self._lock = Lock()
        self._cluster = Cluster(clients.for_cluster(bootstrap, client))
        self._producer = Producer({**quiet, "enable.idempotence": True, "linger.ms": 0})
        self._master = AESGCM(master) if master is not None else None
        self._refresh_s = refresh_s
        self._refreshed = float("-inf")
        self._next = -1
        self._known: dict[tuple[str, str], _Known] = {}
        self._destroyed: dict[str, list[int]] = {}
        _ensure(AdminClient(quiet), topic)

    def __enter__(self) -> Keys:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._cluster.close()

    def seal(self, subject: str, text: str) -> Personal:
        """Encrypt; the subject gets a key with its first text. The key is on disk when this returns."""
        if "\0" in subject:
            raise EventsError("a subject's name has no zero in it")
        with self._lock:
            self._refresh()
            mine = [(key_id, each) for (who, key_id), each in self._known.items() if who == subject]
            key_id, key = (mine[0][0], mine[0][1].key) if mine else self._make(subject)
        nonce = os.urandom(_NONCE)
        sealed = nonce + AESGCM(key).encrypt(nonce, text.encode(), subject.encode())
        return Personal(subject, f"{key_id}:{b64encode(sealed).decode()}")

    def reveal(self, sealed: Personal) -> str | None:
        """The text; None when its subject is forgotten."""
        key_id, _, text = sealed.sealed.partition(":")
        with self._lock:
            self._refresh()
            known = self._known.get((sealed.subject, key_id))
            if known is None:
                self._refresh(now=True)
                known = self._known.get((sealed.subject, key_id))
        if known is None:
            return None
        raw = b64decode(text)
        try:
            return (
                AESGCM(known.key)
                .decrypt(raw[:_NONCE], raw[_NONCE:], sealed.subject.encode())
                .decode()
            )
        except InvalidTag:
            raise EventsError(f"what was sealed for {sealed.subject} has been changed") from None

    def forget(self, subject: str) -> list[int]:
        """Destroy the subject's keys. The offsets of their records, which are still in the files."""
        with self._lock:
            self._refresh(now=True)
            mine = [place for place in self._known if place[0] == subject]
            for place in mine:
                self._produce(_record_key(*place), None)
            offsets = [self._known[place].offset for place in mine]
            self._refresh(now=True)
        return sorted(offsets)

    def destroyed(self, subject: str) -> list[int]:
        """The offsets of keys that were destroyed and whose records are still in the log."""
        with self._lock:
            self._refresh(now=True)
            return sorted(self._destroyed.get(subject, ()))

    # ---- the topic ------------------------------------------------------------------------------

    def _make(self, subject: str) -> tuple[str, bytes]:
        key_id, key = uuid.uuid4().hex[:12], AESGCM.generate_key(256)
        stored = key
        if self._master is not None:
            nonce = os.urandom(_NONCE)
            stored = nonce + self._master.encrypt(nonce, key, subject.encode())
        self._produce(_record_key(subject, key_id), b64encode(stored))
        self._refresh(now=True)
        return key_id, key

    def _produce(self, key: bytes, value: bytes | None) -> None:
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: object) -> None:
            if error is not None:
                failed.append(error)

        self._producer.produce(self.topic, value, key, 0, on_delivery=delivered)
        if self._producer.flush(_TIMEOUT_S) or failed:
            raise EventsError(
                f"a key could not be stored: {failed[0].str() if failed else 'no answer'}",
                hint="nothing was sealed with it; try again when the log can be reached",
            )

    def _refresh(self, now: bool = False) -> None:
        if not now and clock.seconds() - self._refreshed < self._refresh_s:
            return
        start, end = reading.ends(self._cluster, (self.topic, 0))
        if not (start <= self._next <= end and self._read(self._next, end)):
            # Compaction was there before us: among what it took may be tombstones of keys that we hold.
            self._known.clear()
            self._destroyed.clear()
            self._next = -1  # should this fail, the next one begins anew too
            self._read(start, end)
        self._next = end
        self._refreshed = clock.seconds()

    def _read(self, start: int, end: int) -> bool:
        """Take in what is there; whether that was every offset."""
        count = 0
        for found in reading.pieces(self._cluster, (self.topic, 0), start, end):
            count += len(found)
            for record in found:
                self._take(record.key or b"", record.value, record.offset)
        return count == end - start

    def _take(self, key: bytes, value: bytes | None, offset: int) -> None:
        subject, _, key_id = key.decode().partition("\0")
        if value is None:
            gone = self._known.pop((subject, key_id), None)
            if gone is not None:
                self._destroyed.setdefault(subject, []).append(gone.offset)
            return
        raw = b64decode(value)
        if self._master is not None:
            try:
                raw = self._master.decrypt(raw[:_NONCE], raw[_NONCE:], subject.encode())
            except InvalidTag:
                raise EventsError(
                    f"the key of {subject} was sealed by another master key",
                    hint="open the keys with the master key that they were made with",
                ) from None
        self._known[subject, key_id] = _Known(raw, offset)


def _record_key(subject: str, key_id: str) -> bytes:
    return f"{subject}\0{key_id}".encode()


def _ensure(admin: AdminClient, topic: str) -> None:
    if topic in admin.list_topics(timeout=_TIMEOUT_S).topics:
        return
    wanted = NewTopic(topic, num_partitions=1, replication_factor=-1, config=_CONFIG)
    try:
        admin.create_topics([wanted])[topic].result(_TIMEOUT_S)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
