"""The newest values of groups' records, while the log is replayed: shared by the newer kinds of groups."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Parts:
    """Of one group, by kind and name."""

    of: dict[int, dict[str, Any]] = field(default_factory=dict)

    def get(self, kind: int) -> dict[str, Any]:
        return self.of.setdefault(kind, {})


class Replaying:
    """The newest record of a key wins; None removes."""

    def __init__(self) -> None:
        self.groups: dict[str, Parts] = {}

    def put(self, group_id: str, kind: int, name: str, value: object) -> None:
        found = self.groups.setdefault(group_id, Parts()).get(kind)
        if value is not None:
            found[name] = value
        else:
            found.pop(name, None)

    def drop(self, group_id: str) -> None:
        """The group has become one of another type."""
        self.groups.pop(group_id, None)
