"""Change events and documents of MongoDB as records; called by `source`. Pure but for pymongo's JSON.

As Debezium has them: documents are strings of extended JSON (relaxed: numbers are numbers), or JSON
objects with `documents = "object"`; the key is {"id": "<_id as JSON>"}.

    insert  c   after: the document                       drop, dropDatabase, rename   t, every partition
    update  u   after: the document as it is now (may be null: deleted since), updateDescription,
                before: the pre-image, where the collection keeps them
    replace u   delete  d   before: the pre-image or null, then a tombstone

BSON as extended JSON that people read: numbers are numbers, the rest says its type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bson import json_util

from headwater import __version__
from headwater.capture.change import EVERY_PARTITION, Record
from headwater.capture.envelope import dumps, quote
from headwater.capture.errors import SourceRefused
from headwater.capture.topic_names import TopicOwners, topic_of

OPS = {"insert": "c", "update": "u", "replace": "u", "delete": "d"}
ENDS = {"drop", "dropDatabase", "rename"}
QUIET = {
    "invalidate", "create", "createIndexes", "dropIndexes", "modify", "shardCollection",
    "refineCollectionShardKey", "reshardCollection",
}  # fmt: skip


@dataclass(frozen=True)
class Encoder:
    """One capture's way of writing documents."""

    capture: str
    database: str
    as_objects: bool
    tombstones: bool
    _owners: TopicOwners = field(default_factory=TopicOwners, compare=False)

    def topic(self, collection: str) -> str:
        return self._owners.claim(topic_of(self.capture, collection), collection)

    def read(self, collection: str, document: Mapping[str, Any], now_ms: int) -> Record:
        """A document of the snapshot."""
        source = self._source(collection, now_ms, "true")
        value = self._value("null", self._document(document), source, "r", now_ms)
        return self.topic(collection), _key(document["_id"]), value

    def records(self, event: Mapping[str, Any], collection: str, now_ms: int) -> list[Record]:
        """What the event says; nothing for what concerns no document."""
        kind = event["operationType"]
        if kind in QUIET:
            return []
        source = self._source(collection, now_ms, "false", event)
        if kind in ENDS:
            value = self._value("null", "null", source, "t", now_ms)
            topic = self.topic(collection)
            self._owners.release(topic)
            return [(topic, None, value, None, EVERY_PARTITION)]
        if kind not in OPS:
            raise SourceRefused(
                f"MongoDB sent an event of a kind not known here: {kind!r}",
                hint="use a newer headwater",
            )
        return self._change(event, collection, OPS[kind], source, now_ms)

    def _change(
        self, event: Mapping[str, Any], collection: str, op: str, source: str, now_ms: int
    ) -> list[Record]:
        topic, key = self.topic(collection), _key(event["documentKey"]["_id"])
        before = self._document(event.get("fullDocumentBeforeChange"))
        document = None if op == "d" else event.get("fullDocument")
        description = event.get("updateDescription")
        more = "" if description is None else f',"updateDescription":{_description(description)}'
        gone: list[Record] = []
        # To the server 1.0 and 1 are one _id: a replacement may write the other, and a delete then has that.
        replaced = document if event["operationType"] == "replace" else None
        moved = replaced is not None and _key(replaced["_id"]) != key
        if op == "d" or moved:
            gone.append((topic, key, self._value(before, "null", source, "d", now_ms)))
            if self.tombstones:
                gone.append((topic, key, None))
        if op == "d":
            return gone
        if moved and replaced is not None:
            before, op, key = "null", "c", _key(replaced["_id"])
        value = self._value(before, self._document(document), source, op, now_ms, more)
        return [*gone, (topic, key, value)]

    def _document(self, document: Mapping[str, Any] | None) -> str:
        if document is None:
            return "null"
        text = relaxed(document)
        return text if self.as_objects else quote(text)

    def _value(
        self, before: str, after: str, source: str, op: str, now_ms: int, more: str = ""
    ) -> bytes:
        return (
            f'{{"before":{before},"after":{after}{more},"source":{source},"op":"{op}",'
            f'"ts_ms":{now_ms},"transaction":null}}'
        ).encode()

    def _source(
        self, collection: str, now_ms: int, snapshot: str, event: Mapping[str, Any] | None = None
    ) -> str:
        time = None if event is None else event.get("clusterTime")
        session = None if event is None else event.get("lsid")
        return dumps(
            {
                "version": __version__,
                "connector": "mongodb",
                "name": self.capture,
                "ts_ms": now_ms if time is None else time.time * 1000,
                "snapshot": snapshot,
                "db": self.database,
                "collection": collection,
                "ord": None if time is None else time.inc,
                "lsid": None if session is None else relaxed(session),
                "txnNumber": None if event is None else event.get("txnNumber"),
            }
        )


def _key(identity: Any) -> bytes:
    return dumps({"id": relaxed(identity)}).encode()


def _description(description: Mapping[str, Any]) -> str:
    return dumps(
        {
            "removedFields": description.get("removedFields") or None,
            "updatedFields": relaxed(description.get("updatedFields") or {}),
            "truncatedArrays": description.get("truncatedArrays") or None,
        }
    )


_RELAXED = json_util.JSONOptions(json_mode=json_util.JSONMode.RELAXED)


def relaxed(value: Any) -> str:
    """{"_id":{"$oid":"…"},"n":1}"""
    return json_util.dumps(value, json_options=_RELAXED, ensure_ascii=False, separators=(",", ":"))
