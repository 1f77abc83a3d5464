"""Alternatives of two schemas in pairs; pure."""

from __future__ import annotations


def matched(pairs: dict[int, list[int]]) -> int:
    """The most pairs in which nobody stands twice (augmenting paths)."""
    taken: dict[int, int] = {}

    def place(number: int, tried: set[int]) -> bool:
        for other in pairs[number]:
            if other not in tried:
                tried.add(other)
                if other not in taken or place(taken[other], tried):
                    taken[other] = number
                    return True
        return False

    return sum(place(number, set()) for number in pairs)
