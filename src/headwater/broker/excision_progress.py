"""Up to where the requests to excise are answered: noted in the catalogue, beside the audit.

`excisions` calls `begin` when it begins to follow a request topic, and `note` after each request. The audit
says what was done; should somebody delete it, this keeps every request of old from being carried out once
more, on records that were written since.

    excisions/TOPIC-ID   {"next": N, "left": {OFFSET: ID, …}, "checksum": N}

`left` has the requests below N without an answer, each with the id of the topic that had its name when it
was first looked at ("": there was none). The checksum is of the request at N - 1. It must agree, or nothing
of this is believed: with durability=os a power cut may take requests, and others then get their offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from crc32c import crc32c

from headwater.broker.catalogue import Catalogue
from headwater.record.records import Record

KIND = "excisions"


@dataclass(frozen=True, slots=True)
class Answered:
    """All requests below `next`, but for those that are left."""

    next: int = 0
    left: Mapping[int, str] = field(default_factory=dict)
    checksum: int = 0

    def __contains__(self, offset: int) -> bool:
        return offset < self.next and offset not in self.left


class ExcisionProgress:
    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._kept: dict[str, Mapping[str, Any]] = {}
        self._topic_id = ""
        self._noted = Answered()
        self._found = Answered()
        catalogue.follow(KIND, self._keep)

    def _keep(self, topic_id: str, value: Mapping[str, Any] | None) -> None:
        self._kept.pop(topic_id, None)
        if value is not None:
            self._kept[topic_id] = value

    @property
    def last(self) -> int:
        """The offset of the last request that this speaks of; -1: of none."""
        return self._noted.next - 1

    def open(self, topic_id: str) -> None:
        """Follow this request topic from now on."""
        kept = self._kept.get(topic_id, {"next": 0, "left": {}, "checksum": 0})
        self._topic_id, self._found = topic_id, Answered()
        left = {int(offset): str(meant) for offset, meant in kept["left"].items()}
        self._noted = Answered(kept["next"], left, kept["checksum"])

    def trust(self, records: Iterable[Record]) -> None:
        """`records`: the request topic from `last` on."""
        first = next(iter(records), None)
        agrees = first is not None and (first.offset, _checksum(first)) == (
            self.last,
            self._noted.checksum,
        )
        self._noted = self._found = self._noted if agrees else Answered()

    def is_answered(self, offset: int) -> bool:
        """Was it, before this broker began to follow the topic?"""
        return offset in self._found

    def meant(self, offset: int) -> str:
        """The id of the topic that a request is for, if it was left and that is known."""
        return self._found.left.get(offset, "")

    async def note(self, request: Record | None, left: Mapping[int, str]) -> None:
        """This request has had its turn (None: one of those that are left has). Raises StorageFailed."""
        now = Answered(self._noted.next, dict(left), self._noted.checksum)
        if request is not None and request.offset >= now.next:
            now = Answered(request.offset + 1, now.left, _checksum(request))
        if now == self._noted:
            return
        kept = {str(offset): meant for offset, meant in now.left.items()}
        value = {"next": now.next, "left": kept, "checksum": now.checksum}
        await self._catalogue.put(KIND, self._topic_id, value)
        self._noted = now
        for gone in [each for each in self._kept if each != self._topic_id]:
            await self._catalogue.put(KIND, gone, None)


def _checksum(record: Record) -> int:
    return int(crc32c(record.value or b""))
