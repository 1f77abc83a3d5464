"""What is known to be wrong still, and where it is mended: whoever mends it takes its line away.

A line is strict: where nothing fails that it excuses, the test fails and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Cell = tuple[str, Any]
"""A column, and its value as `exact` has it."""

FIRST_DAY, LAST_DAY = -719_162, 2_932_896
DAY_US = 86_400 * 1_000_000


@dataclass(frozen=True)
class Known:
    """A defect: the harnesses that show it, which cells, and why."""

    harnesses: tuple[str, ...]
    excuses: Callable[[Cell], bool]
    why: str


def is_out_of_years(cell: Cell) -> bool:
    """A date or time before the year 1 or after 9999."""
    name, value = cell
    if name == "day":
        return not FIRST_DAY <= value <= LAST_DAY
    return name in ("moment", "local") and not FIRST_DAY <= value // DAY_US <= LAST_DAY


KNOWN: tuple[Known, ...] = ()


def check(harness: str, wrong: Mapping[Cell, str]) -> None:
    """Nothing is wrong but what is known, and what is known is still wrong."""
    known = [each for each in KNOWN if harness in each.harnesses]
    left = {
        cell: why for cell, why in wrong.items() if not any(each.excuses(cell) for each in known)
    }
    said = [f"{name} = {value!r:.60}: {why}" for (name, value), why in left.items()]
    assert not left, f"{harness}, {len(left)} values:\n" + "\n".join(said)
    for each in known:
        assert any(each.excuses(cell) for cell in wrong), f"mended, take it away: {each.why}"
