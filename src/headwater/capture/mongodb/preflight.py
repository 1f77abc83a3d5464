"""What capture needs of a MongoDB and of its own settings, each failure with what mends it; for `source`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from headwater.capture.config import CaptureConfig
from headwater.capture.errors import Misconfigured
from headwater.capture.source import Finding

OLDEST = (4, 4)
Document: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Facts:
    """What the server says of itself."""

    version: tuple[int, ...]
    replica_set: bool
    collections: tuple[str, ...]
    """Those with changes of their own."""
    pre_images: frozenset[str]
    others: Mapping[str, str] = field(default_factory=dict)
    """What has none: its name, and what it is (view, timeseries)."""


def findings(facts: Facts, tables: Sequence[str]) -> list[Finding]:
    shown = ".".join(map(str, facts.version))
    found = [
        Finding(
            "version",
            facts.version >= OLDEST,
            f"MongoDB {shown}",
            None if facts.version >= OLDEST else "use MongoDB 4.4 or later",
        ),
        Finding(
            "replica set",
            facts.replica_set,
            "change streams are possible"
            if facts.replica_set
            else "a lone server has no change streams",
            None if facts.replica_set else "start mongod with --replSet rs0, then rs.initiate()",
        ),
    ]
    for name in tables or facts.collections:
        if name in facts.others:
            kind = facts.others[name]
            sentence = f"{name} is a {kind}, which has no changes of its own"
            remedy = f"take {name} out of `tables`; capture the collection that it is of"
            found.append(Finding(f"collection {name}", False, sentence, remedy))
            continue
        there, kept = name in facts.collections, name in facts.pre_images
        found.append(
            Finding(
                f"collection {name}",
                there,
                f"{name} is there, {'with' if kept else 'without'} pre-images"
                if there
                else f"there is no collection {name} (yet)",
                None if there else f"db.createCollection({name!r})",
            )
        )
    return found


_PASSING = re.compile(
    r"system\.|tmp\.(agg_out|mr)\.|tmp[A-Za-z0-9]{5}\.(renameCollection$|convertToCapped\.)"
)


def is_passing(collection: str) -> bool:
    """The server's own; or what it fills before it gives it a collection's name ($out)."""
    return _PASSING.match(collection) is not None


def has_changes(info: Mapping[str, object]) -> bool:
    """A collection that is no view and no time series, which have no change streams."""
    return info.get("type", "collection") == "collection" and not is_passing(str(info["name"]))


def events_of(collections: Sequence[str]) -> dict[str, object]:
    """The first step of a change stream's pipeline."""
    names = {"$in": list(collections)}
    whole = {"operationType": {"$in": ["dropDatabase", "invalidate"]}}
    return {"$match": {"$or": [{"ns.coll": names}, {"to.coll": names}, whole]}}


class Driver(Protocol):
    """What this source needs of a server; `driver.PymongoDriver` is it."""

    database: str

    def facts(self) -> Facts: ...
    def collections(self) -> list[str]: ...
    def wants(self, collection: str) -> bool: ...
    def operation_time(self) -> tuple[int, int]: ...
    def oplog_place(self) -> str: ...
    def replica_lag_s(self) -> float | None: ...
    def read_behind(self, time: tuple[int, int]) -> None: ...
    def estimated_count(self, collection: str) -> int: ...
    def documents(
        self, collection: str, after: str | None, limit: int, where: str | None = None
    ) -> list[Document]: ...
    def watch(
        self, token: str | None, time: tuple[int, int], *, invalidated: bool, pre_images: bool
    ) -> Iterator[tuple[Document | None, str | None, bool]]: ...
    def close(self) -> None: ...


def check_settings(config: CaptureConfig) -> str:
    """Raise for what means nothing here; how documents are to be shown."""
    if config.outbox is not None:
        raise Misconfigured(
            "an outbox is not known for MongoDB", hint="leave `outbox` out of this capture"
        )
    if config.schema:
        raise Misconfigured(
            "documents have no schema to be carried", hint="leave `schema` out of this capture"
        )
    if config.format != "json":
        raise Misconfigured(
            "documents have no schema, so there is no Avro of them",
            hint='set format = "json" for this capture',
        )
    return str(config.option("documents", "string"))
