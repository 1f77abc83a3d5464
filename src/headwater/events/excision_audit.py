"""Which holes in a history are meant: those that the broker's audit of excisions names.

Owners and readers ask when an aggregate's events do not follow one another, and `erasure` where a key's
records were; see docs/deletion.md. On Apache Kafka there is no such topic, and no hole that is meant.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from headwater.client.cluster import Cluster, TopicPartition
from headwater.client.errors import ClientError, NotThere, RequestRefused
from headwater.events import partition_reader
from headwater.events.errors import EventsError

TOPIC = "__headwater_audit"
REQUESTS = "__headwater_excisions"
_Entry = dict[str, Any]


class ExcisionAudit:
    """Of one partition of events; read when it is asked first."""

    def __init__(self, cluster: Cluster, place: TopicPartition) -> None:
        self._cluster = cluster
        self._topic, self._partition = place

    def explains(self, id: str, offset: int) -> bool:
        """Whether events of this aggregate were excised that lay before the offset."""
        return any(_covers(each, id.encode(), offset) for each in self._targets)

    @cached_property
    def _targets(self) -> list[_Entry]:
        found: list[_Entry] = []
        try:
            known = self._cluster.metadata([self._topic, TOPIC]).topics
            if TOPIC not in known or self._topic not in known:
                return []
            found += [
                each["target"]
                for each in _entries(self._cluster, TOPIC)
                if self._is_ours(each, str(known[self._topic].id))
            ]
        except (ClientError, EventsError):
            return []  # whoever may not read it is told of the hole
        return found

    def _is_ours(self, entry: _Entry, topic_id: str) -> bool:
        removed = entry.get("partitions")
        return (
            entry.get("topic") == self._topic
            and entry.get("topic_id") in (None, topic_id)
            and entry.get("status") in ("done", "incomplete")
            and not entry.get("dry_run")
            and isinstance(entry.get("target"), dict)
            and isinstance(removed, dict)
            and bool(removed.get(str(self._partition)))
        )


def excised(cluster: Cluster, key: bytes) -> dict[str, set[int]]:
    """The topics that somebody asked to take this key's records out of, by excision; and the partitions in
    which there were some, where the broker has said that already.

    Whoever may not read of excisions is told of none.
    """
    found: dict[str, set[int]] = {}
    known = cluster.metadata(None).topics
    for topic in (REQUESTS, TOPIC):
        try:
            entries = list(_entries(cluster, topic)) if topic in known else []
        except (NotThere, RequestRefused):
            continue
        for entry in entries:
            if isinstance(name := entry.get("topic"), str) and _names(entry, key):
                removed = entry.get("partitions") if topic == TOPIC else None
                counts = removed if isinstance(removed, dict) else {}
                found.setdefault(name, set()).update(int(n) for n in counts if counts[n])
    return found


def gap(name: str, partition: int, id: str, offset: int, n: int, version: int) -> EventsError:
    """Events that do not follow one another, with nothing that explains it."""
    return EventsError(
        f"{name}-{partition} offset {offset}: event {n} of {id} follows event {version}",
        hint="events are missing that no excision took out (or __headwater_audit cannot be read), or "
        "somebody else wrote to the topic; see docs/event-sourcing.md",
    )


def _names(entry: _Entry, key: bytes) -> bool:
    target = entry.get("target")
    return (
        isinstance(target, dict)
        and "digest" in target
        and not entry.get("dry_run")
        and _covers(target, key, 0)
    )


def _covers(target: _Entry, key: bytes, offset: int) -> bool:
    if "digest" in target:
        try:
            salt = bytes.fromhex(str(target.get("salt")))
        except ValueError:
            return False
        return hashlib.sha256(salt + key).hexdigest() == target["digest"]
    first = target.get("first_offset")
    return isinstance(first, int) and first < offset


def _entries(cluster: Cluster, topic: str) -> Iterator[_Entry]:
    place = (topic, 0)
    ends = partition_reader.ends(cluster, place)
    for piece in partition_reader.pieces(cluster, place, *ends):
        yield from (_entry(each.value) for each in piece)


def _entry(value: bytes | None) -> _Entry:
    try:
        found = json.loads(value or b"null")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
