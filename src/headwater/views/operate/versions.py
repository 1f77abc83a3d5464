"""The versions of a view that lie side by side: which one readers see, which may come and go.

Used by `headwater rebuild`. A rebuild makes the next version from the log while the current one serves;
switching changes what readers see in one step, and keeps the other until it is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.client.position import Position
from headwater.errors import HeadwaterError
from headwater.views.operate.wait import View
from headwater.views.targets.contract import Applied


class NoSuchVersion(HeadwaterError):
    """The view has no version that could be meant."""


@dataclass(frozen=True)
class Versions:
    """What a store has of a view."""

    view: View
    current: int
    known: dict[int, Applied | None]

    @property
    def following(self) -> int:
        """The number for a new one: never used before, as far as the store knows."""
        return max([self.current, *self.known]) + 1

    @property
    def others(self) -> list[int]:
        return sorted(set(self.known) - {self.current})

    def position(self, number: int) -> Position:
        applied = self.known.get(number)
        return Position() if applied is None else applied.position

    def newest_other(self) -> int:
        """The one that a switch means."""
        if not self.others:
            raise self._alone()
        return self.others[-1]

    def before(self) -> int:
        """The one that `--back` means: the newest that is older than the current one."""
        older = [number for number in self.others if number < self.current]
        if not older:
            raise self._alone()
        return older[-1]

    def named(self, number: int) -> int:
        if number not in self.known:
            there = ", ".join(map(str, sorted(self.known)))
            raise NoSuchVersion(
                f"the view {self.view.name!r} has no version {number}", hint=f"there are {there}"
            )
        return number

    def _alone(self) -> NoSuchVersion:
        return NoSuchVersion(
            f"the view {self.view.name!r} has no other version than {self.current} to go to",
            hint=f"headwater rebuild {self.view.name} PATH builds one",
        )


def versions_of(view: View) -> Versions:
    """Asked of the store. NoSuchVersion if it has nothing of the view yet."""
    first = view.version(1)
    current = first.current()
    if current is None:
        raise NoSuchVersion(
            f"{view.where} has nothing of the view {view.name!r} yet",
            hint="headwater run builds its first version",
        )
    return Versions(view, current, first.versions())
