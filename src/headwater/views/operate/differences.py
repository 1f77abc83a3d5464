"""What a comparison of a view with the log has found, and which rows would mend it; pure.

`pipelines.verify_job` compares, `headwater verify` tells. Rows here are only those that differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.client.position import Position
from headwater.views.targets.contract import DELETED, Shape

if TYPE_CHECKING:
    import pyarrow as pa

MISSING, EXTRA, DIFFERENT = "missing", "extra", "different"

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Difference:
    """One key of which the view does not say what the log says."""

    key: dict[str, Any]
    expected: Row | None
    """As the log has it; None where the view has a row too many."""
    found: Row | None

    @property
    def kind(self) -> str:
        if self.found is None:
            return MISSING
        return EXTRA if self.expected is None else DIFFERENT

    @property
    def columns(self) -> dict[str, list[Any]]:
        """Column → [expected, found], of those that differ."""
        if self.expected is None or self.found is None:
            return {}
        pairs = ((name, [value, self.found[name]]) for name, value in self.expected.items())
        return {name: pair for name, pair in pairs if not _same(*pair)}

    def as_json(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "kind": self.kind,
            "columns": self.columns,
            "expected": self.expected,
            "found": self.found,
        }


@dataclass(frozen=True)
class Report:
    """The outcome for one version of a view at one position."""

    view: str
    version: int
    to: str
    position: Position
    rows: int
    """That the log says there must be."""
    found: int
    """That the view has."""
    counts: Mapping[str, int]
    """By kind of difference."""
    differences: Sequence[Difference]
    """The keys that differ; of very many, the first."""
    seconds: float
    remarks: Sequence[str] = ()
    repaired: int | None = None
    aside: int = 0
    """Keys of which there must be no row: the view's function fails for them."""

    @property
    def differing(self) -> int:
        return sum(self.counts.values())

    @property
    def is_right(self) -> bool:
        same = self.differing == 0 and self.rows == self.found
        return same or self.repaired is not None

    def as_json(self) -> dict[str, Any]:
        offsets = self.position.offsets
        return {
            "view": self.view,
            "version": self.version,
            "to": self.to,
            "position": {t: {str(p): o for p, o in ps.items()} for t, ps in offsets.items()},
            "rows": self.rows,
            "found": self.found,
            **{kind: self.counts.get(kind, 0) for kind in (MISSING, EXTRA, DIFFERENT)},
            "differences": [each.as_json() for each in self.differences],
            "repaired": self.repaired,
            "aside": self.aside,
            "right": self.is_right,
            "remarks": list(self.remarks),
            "seconds": round(self.seconds, 3),
        }


def differences_of(expected: Sequence[Row], found: Sequence[Row], shape: Shape) -> list[Difference]:
    """Between rows of some keys."""
    right = {_key(row, shape): row for row in expected}
    here = {_key(row, shape): row for row in found}
    named = (
        Difference(
            {name: (right.get(key) or here[key])[name] for name in shape.key},
            right.get(key),
            here.get(key),
        )
        for key in dict.fromkeys([*right, *here])
    )
    return [each for each in named if each.kind != DIFFERENT or each.columns]


def corrections(differences: Sequence[Difference], shape: Shape) -> pa.RecordBatch:
    """The rows that mend a keyed view, as its target stages them."""
    import pyarrow as pa

    nothing = dict.fromkeys(shape.schema.names)
    rows = [{**nothing, **(each.expected or each.key)} for each in differences]
    arrays = [pa.array([row[f.name] for row in rows], f.type) for f in shape.schema]
    gone = pa.array([each.expected is None for each in differences], pa.bool_())
    fields = [*shape.schema, pa.field(DELETED, pa.bool_())]
    return pa.RecordBatch.from_arrays([*arrays, gone], schema=pa.schema(fields))


def _key(row: Row, shape: Shape) -> tuple[Any, ...]:
    """To find a row by; every NaN is one key, as it is for Spark."""
    values = (row[name] for name in shape.key)
    return tuple("NaN" if value != value else value for value in values)


def _same(one: Any, other: Any) -> bool:
    # Not a number is not equal to itself, but it is the same value; also in a list, a struct, a map.
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    return bool(one == other) or (one != one and other != other)
