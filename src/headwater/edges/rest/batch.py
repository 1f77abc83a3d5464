"""The records of one answer as they are gathered: JSON already, so that their bytes are what is sent.

Filled by `instance` in its thread, as much JSON would hold up the event loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from headwater.client.records import Record
from headwater.edges import json_values
from headwater.edges.rest.records_out import shown

ANSWER_BYTES, ANSWER_BYTES_MAX = 1024**2, 8 * 1024**2
"""Unless told, and at most."""
RECORDS_MAX = 10_000


class Answer(NamedTuple):
    body: bytes
    topics: Mapping[str, int]
    """How many records of each."""


class Batch:
    """At most `bytes_max`, or one record."""

    def __init__(self, format: str, bytes_max: int) -> None:
        self._format, self._most = format, bytes_max
        self._pieces: list[bytes] = []
        self._size = len(b"[]")
        self._topics: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._pieces)

    @property
    def is_full(self) -> bool:
        return len(self) > 0 and (len(self) >= RECORDS_MAX or self._size >= self._most)

    def add(self, record: Record) -> bool:
        """False: it has no room; the next answer begins with it."""
        piece = json_values.kept(shown(record, self._format))
        size = self._size + len(piece) + (1 if self._pieces else 0)
        if self._pieces and size > self._most:
            return False
        self._pieces.append(piece)
        self._size = size
        self._topics[record.topic] += 1
        return True

    def answer(self) -> Answer:
        return Answer(b"[" + b",".join(self._pieces) + b"]", self._topics)
