"""Which id of a context a new schema gets; pure. `state` counts by it.

| ids                | are taken by                                                                    |
|--------------------|---------------------------------------------------------------------------------|
| 1 … `IMPORTED_MAX` | whoever registers or imports: the next is above all, as in Confluent's registry |
| above              | registration, one by one; an import does not move the count, and is passed over |

So no import, by whoever may import into one subject, leaves the others without ids: half of them can only be
used up one by one.
"""

from __future__ import annotations

from collections.abc import Callable

ID_MAX = 2**31 - 1
IMPORTED_MAX = 2**30 - 1
IsTaken = Callable[[int], bool]


def counted(highest: int, identity: int, is_taken: IsTaken) -> int:
    """The count of ids, once one more is there."""
    if identity <= IMPORTED_MAX:
        highest = max(highest, identity)
    while highest >= IMPORTED_MAX and is_taken(highest + 1):
        highest += 1
    return highest


def following(highest: int, is_taken: IsTaken) -> int | None:
    """The next that was never given; None: there is none."""
    found = highest + 1
    while is_taken(found):
        found += 1
    return found if found <= ID_MAX else None
