"""One topic of subjects' keys, followed for `keys`: which there are, still wrapped, and which were destroyed.

    one partition, compacted
        key    SUBJECT "\\0" KEY ID
        value  a wrapped key (`master_key`); or, from before: base64 of 32 bytes, the key itself; or of 60,
               the key sealed by a master key with the subject beside it; nothing: destroyed

A record that is nothing of this is set aside: it is named in the process's log, and takes nobody's key away.

Invariant: a key must be used only if every offset from its record on has been seen. Compaction removes
tombstones after a day (delete.retention.ms); who finds offsets missing has slept too long, and reads the
topic from its start.
"""

from __future__ import annotations

from headwater import only_kio  # noqa: F401, isort: skip  (before anything of kio's)

import logging
from base64 import b64decode
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from headwater.client.cluster import Cluster
from headwater.client.errors import RequestRefused
from headwater.client.publisher import Draft, Publisher
from headwater.events import partition_reader
from headwater.events.master_key import KEY_BYTES, WRAPPED_BYTES, MasterKey, wrapped_by

logger = logging.getLogger("headwater.events")

TOPIC = "__headwater_keys"
FORMER_TOPIC = "headwater.keys"


class KeyName(NamedTuple):
    """Whose key, and which of theirs."""

    subject: str
    key_id: str

    def encode(self) -> bytes:
        return f"{self.subject}\0{self.key_id}".encode()


class StoredKey(NamedTuple):
    """As it lies in the log."""

    value: bytes
    offset: int
    master: str | None
    """The id of the master key that wraps it; None: it is from before there were ids."""

    def opened(self, name: KeyName, master: MasterKey | None) -> bytes | None:
        """The key itself; None: it takes another master key."""
        if self.master is not None:
            return None if master is None else master.unwrap(self.value, name.encode())
        raw = b64decode(self.value)
        if len(raw) == KEY_BYTES:
            return raw
        return None if master is None else master.decrypt(raw, name.subject.encode())


class KeyTopic:
    """Not for several threads at once."""

    def __init__(
        self, cluster: Cluster, publisher: Publisher, name: str, is_former: bool = False
    ) -> None:
        self.name = name
        self._is_former = is_former
        self.keys: dict[KeyName, StoredKey] = {}
        self.destroyed: dict[str, list[int]] = {}
        self._cluster = cluster
        self._publisher = publisher
        self._next = -1
        self._is_there = False

    def put(self, name: KeyName, value: bytes | None) -> None:
        """Durable when this returns. Raises ClientError."""
        self._publisher.put(self.name, Draft(name.encode(), value, partition=0))

    def refresh(self) -> None:
        """Take in what is new; a topic that nobody has made holds nothing."""
        self._is_there = self._is_there or self._exists()
        if not self._is_there:
            return
        start, end = partition_reader.ends(self._cluster, (self.name, 0))
        if not (start <= self._next <= end and self._read(self._next, end)):
            # Compaction was there before us: among what it took may be tombstones of keys that we hold.
            self.keys.clear()
            self.destroyed.clear()
            self._next = -1  # should this fail, the next one begins anew too
            self._read(start, end)
        self._next = end

    def _exists(self) -> bool:
        try:
            return self.name in self._cluster.metadata([self.name]).topics
        except RequestRefused as error:
            if error.code != ErrorCode.topic_authorization_failed or not self._is_former:
                raise
            return False  # the answer also where it is not there, and nothing that is new needs it

    def _read(self, start: int, end: int) -> bool:
        """Take in what is there; whether that was every offset."""
        count = 0
        for found in partition_reader.pieces(self._cluster, (self.name, 0), start, end):
            count += len(found)
            for record in found:
                self._take(record.key or b"", record.value, record.offset)
        return count == end - start

    def _take(self, key: bytes, value: bytes | None, offset: int) -> None:
        subject, zero, key_id = key.decode("utf-8", "replace").partition("\0")
        name = KeyName(subject, key_id)
        if value is None:
            gone = self.keys.pop(name, None)
            if gone is not None:
                self.destroyed.setdefault(subject, []).append(gone.offset)
            return
        found = _stored(value, offset) if zero and name.encode() == key else None
        if found is None:
            logger.warning("%s-0, offset %d: no key, set aside", self.name, offset)
        elif found.master is None and name in self.keys and self.keys[name].master is not None:
            logger.warning("%s-0, offset %d: a key that is wrapped stays so", self.name, offset)
        else:
            self.keys[name] = found


def _stored(value: bytes, offset: int) -> StoredKey | None:
    master = wrapped_by(value)
    if master is not None:
        return StoredKey(value, offset, master)
    try:
        size = len(b64decode(value, validate=True))
    except ValueError:
        return None
    return StoredKey(value, offset, None) if size in (KEY_BYTES, WRAPPED_BYTES) else None
