"""Which holes in a history are meant: those that the broker's audit of excisions names.

Owners and readers ask when an aggregate's events do not follow one another; see docs/deletion.md. On Apache
Kafka there is no such topic, and no hole that is meant.
"""

from __future__ import annotations

import hashlib
import json
from functools import cached_property
from typing import Any

from headwater.client.cluster import Cluster, TopicPartition
from headwater.client.errors import ClientError
from headwater.events import partition_reader
from headwater.events.errors import EventsError

TOPIC = "__headwater_audit"


class ExcisionAudit:
    """Of one partition of events; read when it is asked first."""

    def __init__(self, cluster: Cluster, place: TopicPartition) -> None:
        self._cluster = cluster
        self._topic, self._partition = place

    def explains(self, id: str, offset: int) -> bool:
        """Whether events of this aggregate were excised that lay before the offset."""
        return any(_covers(each, id.encode(), offset) for each in self._targets)

    @cached_property
    def _targets(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        try:
            known = self._cluster.metadata([self._topic, TOPIC]).topics
            if TOPIC not in known or self._topic not in known:
                return []
            place = (TOPIC, 0)
            ends = partition_reader.ends(self._cluster, place)
            for piece in partition_reader.pieces(self._cluster, place, *ends):
                entries = (_entry(each.value) for each in piece)
                found += [
                    each["target"]
                    for each in entries
                    if self._is_ours(each, str(known[self._topic].id))
                ]
        except (ClientError, EventsError):
            return []  # whoever may not read it is told of the hole
        return found

    def _is_ours(self, entry: dict[str, Any], topic_id: str) -> bool:
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


def gap(name: str, partition: int, id: str, offset: int, n: int, version: int) -> EventsError:
    """Events that do not follow one another, with nothing that explains it."""
    return EventsError(
        f"{name}-{partition} offset {offset}: event {n} of {id} follows event {version}",
        hint="events are missing that no excision took out (or __headwater_audit cannot be read), or "
        "somebody else wrote to the topic; see docs/event-sourcing.md",
    )


def _covers(target: dict[str, Any], key: bytes, offset: int) -> bool:
    if "digest" in target:
        try:
            salt = bytes.fromhex(str(target.get("salt")))
        except ValueError:
            return False
        return hashlib.sha256(salt + key).hexdigest() == target["digest"]
    first = target.get("first_offset")
    return isinstance(first, int) and first < offset


def _entry(value: bytes | None) -> dict[str, Any]:
    try:
        found = json.loads(value or b"null")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
