"""Which files make up the state of a view's tables after a batch: one small JSON file for each batch. Pure.

    ROOT/NAME/tables/manifests/17
        {"form": 1, "query": "9f86…", "batch": 17, "difference": "17-4b1c/difference",
         "held": {"base": …, "deltas": [["17-4b1c/difference", 12]]},
         "tables": [{"base": ["9-77aa/t0", 120000], "deltas": [["17-4b1c/t0", 40]]}, …]}
    ROOT/NAME/tables/data/17-4b1c/t0/…     Parquet, written by executors; 4b1c is one attempt of batch 17

A manifest *must* be written after every file that it names is whole, and before the target is told of its
batch: so whatever happens, the state is that of a batch as a whole. It says what the batch does to the target
(`difference`) and what the tables are after it. If its batch comes again, that is done instead of being
computed; if the next one comes, it was done.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from headwater.errors import HeadwaterError

FORM = 1
DELTAS_MOST = 16
"""More files than that cost more to open than to be made one."""
FEW_ROWS = 100_000
"""Up to here, only their number counts."""
LARGE_PART = 4
"""Deltas of so many rows, as a part of all, become part of the base."""


class UnknownState(HeadwaterError):
    """A manifest that this version cannot read."""


@dataclass(frozen=True)
class Piece:
    """A folder of files below `data`, and how many rows are in it."""

    name: str
    rows: int


class Folding(Enum):
    """What is to be done so that a state stays quick to read."""

    NONE = "none"
    DELTAS = "deltas"
    """All deltas become one."""
    ALL = "all"
    """Base and deltas become a base."""


@dataclass(frozen=True)
class Pieces:
    """A table: a base, which has each key once, and later changes, of which the last one of a key counts."""

    base: Piece | None = None
    deltas: tuple[Piece, ...] = ()

    def with_delta(self, piece: Piece) -> Pieces:
        return Pieces(self.base, (*self.deltas, piece))

    @property
    def due(self) -> Folding:
        """Small deltas are folded often and cheaply, the base seldom: all of it is then written again, for a
        quarter of its rows that came in between."""
        known = self.base or (self.deltas[0] if self.deltas else Piece("", 0))
        late = sum(piece.rows for piece in self.deltas if piece != known)
        many = len(self.deltas) > DELTAS_MOST
        if (many or late > FEW_ROWS) and (self.base is None or late * LARGE_PART > known.rows):
            return Folding.ALL
        return Folding.DELTAS if many else Folding.NONE

    @property
    def names(self) -> Iterator[str]:
        if self.base is not None:
            yield self.base.name
        yield from (piece.name for piece in self.deltas)


@dataclass(frozen=True)
class Manifest:
    """The state after a batch."""

    query: str
    batch: int
    tables: tuple[Pieces, ...]
    held: Pieces
    difference: Piece | None = None
    """What the batch changes in the view; None where it changes nothing."""

    def to_json(self) -> str:
        said = {
            "form": FORM,
            "query": self.query,
            "batch": self.batch,
            "tables": [_pieces_to(each) for each in self.tables],
            "held": _pieces_to(self.held),
            "difference": _piece_to(self.difference),
        }
        return json.dumps(said)

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        said = json.loads(text)
        if said.get("form") != FORM:
            raise UnknownState(
                f"the state of a view over tables has the form {said.get('form')}, and this version "
                f"knows {FORM}",
                hint="run the version that wrote it, or rebuild the view with headwater rebuild",
            )
        return cls(
            said["query"],
            said["batch"],
            tuple(_pieces_of(each) for each in said["tables"]),
            _pieces_of(said["held"]),
            _piece_of(said["difference"]),
        )

    @property
    def needed(self) -> set[str]:
        """The folders of files, each of an attempt."""
        names = {name for pieces in (*self.tables, self.held) for name in pieces.names}
        return names | ({self.difference.name} if self.difference is not None else set())

    @property
    def attempts(self) -> set[str]:
        """The folders below `data` that are needed."""
        return {name.partition("/")[0] for name in self.needed}


def nothing(query: str, tables: int) -> Manifest:
    """The state before the first batch."""
    return Manifest(query, -1, (Pieces(),) * tables, Pieces())


def leftovers(attempts: Iterable[str], needed: Iterable[Manifest], batch: int) -> list[str]:
    """Folders of earlier batches that no manifest needs: long done, or cut short by a driver's end. Those of
    this batch and later ones may be another driver's, who is ahead."""
    known = {name for manifest in needed for name in manifest.attempts}
    old = {each for each in attempts if (found := batch_of(each)) is not None and found < batch}
    return sorted(old - known)


def batch_of(attempt: str) -> int | None:
    """17 of 17-4b1c; None of a name that is no attempt's: storages leave files of their own."""
    number = attempt.rpartition("-")[0]
    return int(number) if number.removeprefix("-").isdecimal() else None


def _piece_to(piece: Piece | None) -> list[object] | None:
    return None if piece is None else [piece.name, piece.rows]


def _pieces_to(pieces: Pieces) -> dict[str, object]:
    return {"base": _piece_to(pieces.base), "deltas": [_piece_to(each) for each in pieces.deltas]}


def _piece_of(said: list[object] | None) -> Piece | None:
    return None if said is None else Piece(str(said[0]), int(str(said[1])))


def _pieces_of(said: dict[str, list[object]]) -> Pieces:
    found = [_piece_of(each) for each in said["deltas"] if isinstance(each, list)]
    return Pieces(_piece_of(said["base"]), tuple(each for each in found if each is not None))
