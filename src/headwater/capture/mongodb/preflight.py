"""What capture needs of a MongoDB, each failure with what mends it; `source` calls it for `check`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

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
