"""What comes in at `stage`: rows with exactly the columns they must have, without those a target refuses.

Called by targets, in tasks, on their way to the staging.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from headwater.views.json_rows import documents
from headwater.views.target import (
    DELETED,
    VALID_FROM,
    VALIDITY,
    Kind,
    Misfit,
    Refusal,
    Shape,
)

MOMENT = pa.timestamp("us", "UTC")
Check = Callable[[pa.RecordBatch], Iterable[tuple[int, str]]]
"""Names the rows of a batch that the target cannot take: number and reason."""


def staged_schema(shape: Shape) -> pa.Schema:
    """Of what `stage` gets."""
    schema = pa.schema(list(shape.schema))
    if shape.kind is not Kind.APPEND:
        schema = schema.append(pa.field(DELETED, pa.bool_()))
    if shape.kind is Kind.HISTORY:
        schema = schema.append(pa.field(VALID_FROM, MOMENT))
    return schema


def visible_schema(shape: Shape) -> pa.Schema:
    """Of what readers see."""
    schema = pa.schema(list(shape.schema))
    if shape.kind is Kind.HISTORY:
        for name, kind in zip(VALIDITY, (MOMENT, MOMENT, pa.bool_()), strict=True):
            schema = schema.append(pa.field(name, kind))
    return schema


def fitted(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same rows with exactly these columns."""
    if rows.schema.equals(schema):
        return rows
    try:
        return pa.RecordBatch.from_arrays(
            [rows.column(field.name).cast(field.type) for field in schema], schema=schema
        )
    except (KeyError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise Misfit(f"rows are not the view's: {error}") from error


class Admission:
    """Goes through the rows of a part, keeps those that the target takes, and notes the others."""

    def __init__(self, schema: pa.Schema, part: int, check: Check | None = None) -> None:
        self._schema = schema
        self._part = part
        self._check = check
        self.seen = 0
        self.refused: list[Refusal] = []

    @property
    def taken(self) -> int:
        return self.seen - len(self.refused)

    def admitted(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for given in rows:
            batch = fitted(given, self._schema)
            bad = dict(self._check(batch)) if self._check else {}
            for number, reason in bad.items():
                row = documents(batch.slice(number, 1))[0]
                self.refused.append(Refusal(row, reason, self._part, self.seen + number))
            self.seen += batch.num_rows
            yield batch.filter(_all_but(bad, batch.num_rows)) if bad else batch


def _all_but(numbers: Iterable[int], count: int) -> pa.Array:
    kept = [True] * count
    for number in numbers:
        kept[number] = False
    return pa.array(kept)
