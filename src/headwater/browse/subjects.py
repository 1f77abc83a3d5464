"""What a registry's topic says, for people: subjects, and their versions as lines.

Read from `_schemas` of the log itself, so that it is there whether a registry runs or not.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from headwater.client.log import Log
from headwater.schemas.lookup import TopicLookup
from headwater.schemas.model import PROTOBUF, Schema
from headwater.schemas.records import Version


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


def lines(schema: Schema) -> list[str]:
    """For people: JSON with a line for each thing."""
    if schema.kind == PROTOBUF:
        return schema.text.splitlines()
    try:
        return json.dumps(json.loads(schema.text), indent=2, ensure_ascii=False).splitlines()
    except (ValueError, RecursionError):  # another registry may have let it in
        return schema.text.splitlines()
