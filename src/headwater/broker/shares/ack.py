"""What a consumer says about records; `state` decides what follows from it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from itertools import groupby
from typing import NamedTuple


class Ack(IntEnum):
    """What a consumer says about a record."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class Acknowledgement(NamedTuple):
    """`types` holds one for all offsets of the range, or one for each."""

    first: int
    last: int
    types: Sequence[int]


class Piece(NamedTuple):
    """Neighbours of which the same is said."""

    first: int
    last: int
    kind: int


def pieces_of(each: Acknowledgement) -> list[Piece]:
    """One for each stretch of equal types."""
    if len(each.types) == 1:
        return [Piece(each.first, each.last, each.types[0])]
    pieces: list[Piece] = []
    offset = each.first
    for kind, group in groupby(each.types):
        count = sum(1 for _ in group)
        pieces.append(Piece(offset, offset + count - 1, kind))
        offset += count
    return pieces
