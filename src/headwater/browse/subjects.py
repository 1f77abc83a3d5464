"""What a registry's topic says, for people: subjects, their versions, and two of them side by side.

Read from `_schemas` of the log itself, so that it is there whether a registry runs or not.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import NamedTuple

from headwater.client.log import Log
from headwater.schemas.lookup import TopicLookup
from headwater.schemas.model import PROTOBUF, Schema
from headwater.schemas.records import Version

SAME, CHANGED, ADDED, GONE = "same", "changed", "added", "gone"


@dataclass(frozen=True)
class Subject:
    """One subject, with its versions that are not deleted, the oldest first."""

    name: str
    versions: tuple[Version, ...]
    level: str

    @property
    def latest(self) -> Version:
        return self.versions[-1]


class Subjects:
    """Remembers what it has read; for several threads."""

    def __init__(self, log: Log) -> None:
        self._lookup = TopicLookup(log)

    def all(self) -> list[Subject]:
        """Those that have a version that is not deleted, by name."""
        state = self._lookup.state()
        found = []
        for name in state.subjects():
            versions = tuple(state.versions(name))
            level = str(state.config_in_force(name).get("compatibilityLevel", "BACKWARD"))
            if versions:
                found.append(Subject(name, versions, level))
        return found

    def one(self, name: str) -> Subject | None:
        return next((each for each in self.all() if each.name == name), None)


class Pair(NamedTuple):
    """A line of the older version beside one of the newer; None: there is none."""

    old: str | None
    new: str | None
    mark: str
    """same, changed, added or gone."""


def side_by_side(old: Sequence[str], new: Sequence[str]) -> list[Pair]:
    found: list[Pair] = []
    for kind, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        left, right = old[a:b], new[c:d]
        if kind == "equal":
            found += [Pair(one, one, SAME) for one in left]
            continue
        both = min(len(left), len(right))
        found += [Pair(left[n], right[n], CHANGED) for n in range(both)]
        found += [Pair(one, None, GONE) for one in left[both:]]
        found += [Pair(None, one, ADDED) for one in right[both:]]
    return found


def lines(schema: Schema) -> list[str]:
    """For people: JSON with a line for each thing."""
    if schema.kind == PROTOBUF:
        return schema.text.splitlines()
    try:
        return json.dumps(json.loads(schema.text), indent=2, ensure_ascii=False).splitlines()
    except ValueError:
        return schema.text.splitlines()
