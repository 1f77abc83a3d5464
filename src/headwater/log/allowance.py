"""How much of a log one turn of the event loop may look at.

Whoever reads while others wait hands one of these in: it counts what the work is made of, however few bytes
or partitions that is in. Where it does not suffice the read is made once more in a thread, without one.
"""

from __future__ import annotations

ENTRIES_MAX = 2000
"""Some 5 ms of headers, checksums and names of aborted transactions."""


class TooMuch(Exception):
    """More is to be looked at than this turn has time for."""


class Allowance:
    """So many batches, and entries of lists, may be looked at in this turn. The disk is not waited for."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = ENTRIES_MAX

    def take(self, count: int = 1) -> None:
        """For so many of them. Raises TooMuch."""
        self.left -= count
        if self.left < 0:
            raise TooMuch
