"""From the log back to groups with epochs: records are collected, and put together at the end.

`restore` hands every record of such a group to `apply`, in log order, and takes the groups with
`finished`. The newest record of a key wins, and None removes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from headwater.broker.groups.modern.records import Key, Kinds

Built = TypeVar("Built")


@dataclass(slots=True)
class Parts:
    """The newest values of one group, by kind and name."""

    of: dict[int, dict[str, Any]] = field(default_factory=dict)

    def get(self, kind: int) -> dict[str, Any]:
        return self.of.setdefault(kind, {})


class Replay(Generic[Built]):
    kinds: Kinds
    readers: Mapping[int, Callable[[bytes], object]]

    def __init__(self) -> None:
        self._groups: dict[str, Parts] = {}

    def read_key(self, data: bytes) -> Key | None:
        return self.kinds.read_key(data)

    def apply(self, key: Key, value: bytes | None) -> None:
        reader = self.readers.get(key.kind)
        if reader is None:
            return
        found = self._groups.setdefault(key.group_id, Parts()).get(key.kind)
        if value is None:
            found.pop(key.name, None)
        else:
            found[key.name] = reader(value)

    def drop(self, group_id: str) -> None:
        """The group has become one of another type."""
        self._groups.pop(group_id, None)

    def finished(self) -> dict[str, Built]:
        return {
            group_id: self.built(group_id, parts)
            for group_id, parts in self._groups.items()
            if parts.get(self.kinds.group) or parts.get(self.kinds.member)
        }

    def built(self, group_id: str, parts: Parts) -> Built:
        raise NotImplementedError

    def newest_first(self, parts: Parts) -> list[str]:
        """The members, by the epoch that each had."""
        currents = parts.get(self.kinds.current)
        return sorted(
            parts.get(self.kinds.member),
            key=lambda id: -(currents[id].epoch if id in currents else 0),
        )
