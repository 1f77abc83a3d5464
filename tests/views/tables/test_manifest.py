"""Which files make up a shared state: written, read, folded in time, removed when nobody needs them."""

from __future__ import annotations

import pytest

from headwater.views.tables.shared.manifest import (
    DELTAS_MOST,
    FEW_ROWS,
    Folding,
    Manifest,
    Piece,
    Pieces,
    UnknownState,
    leftovers,
    nothing,
)


def deltas(count: int, rows: int = 1) -> tuple[Piece, ...]:
    return tuple(Piece(f"{n}-a/t0", rows) for n in range(count))


def test_a_manifest_is_what_was_written():
    table = Pieces(Piece("1-a/t0-all", 7), deltas(2))
    found = Manifest("q", 3, (table, Pieces()), Pieces(None, deltas(1)), Piece("3-c/difference", 4))
    assert Manifest.from_json(found.to_json()) == found
    assert Manifest.from_json(nothing("q", 2).to_json()) == nothing("q", 2)


def test_a_form_of_another_version_is_refused_in_words():
    with pytest.raises(UnknownState, match="form 2"):
        Manifest.from_json('{"form": 2}')


@pytest.mark.parametrize(
    ("pieces", "due"),
    [
        (Pieces(), Folding.NONE),
        (Pieces(None, deltas(1, 10**9)), Folding.NONE),
        (Pieces(None, deltas(DELTAS_MOST)), Folding.NONE),
        (Pieces(None, deltas(DELTAS_MOST + 1)), Folding.ALL),
        (Pieces(Piece("b", 10**6), deltas(DELTAS_MOST)), Folding.NONE),
        (Pieces(Piece("b", 10**6), deltas(DELTAS_MOST + 1)), Folding.DELTAS),
        (Pieces(Piece("b", 10), deltas(DELTAS_MOST + 1)), Folding.ALL),
        (Pieces(Piece("b", 10**6), deltas(1, 250_001)), Folding.ALL),
        (Pieces(Piece("b", 10**6), deltas(1, 250_000)), Folding.NONE),
        (Pieces(Piece("b", 10), deltas(1, FEW_ROWS)), Folding.NONE),
    ],
)
def test_deltas_are_folded_when_they_are_many_or_large(pieces: Pieces, due: Folding):
    assert pieces.due is due


def test_only_what_a_manifest_needs_is_kept():
    before = Manifest("q", 1, (Pieces(Piece("0-a/t0", 1)),), Pieces())
    now = Manifest("q", 2, (Pieces(Piece("0-a/t0", 1), (Piece("2-c/t0", 1),)),), Pieces())
    attempts = ["-1-z", "0-a", "1-b", "1-lost", "2-c", "2-other", "3-ahead", ".nfs-07", "notes"]
    assert leftovers(attempts, (before, now), 2) == ["-1-z", "1-b", "1-lost"]
    assert now.needed == {"0-a/t0", "2-c/t0"}
