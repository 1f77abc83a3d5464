"""The records of one table to its typed changes: many at once, column by column; few or doubtful ones apart.

Made by `envelopes`, which knows what one value says; asked by it and by `follower`. Of a block of records,
the values are put one behind the other and read by Arrow's JSON parser, for all forms together: an envelope
(op, before, after) or a plain row. What comes out is taken where it is as far beyond doubt as value by value.
Each record that is not (no value, no key, a zero that may have lost its sign, a long value) is read apart;
so is a whole block where the parser stops, or takes otherwise than Spark's what is in it (half a character as
an escape, a `payload`). Columns are read for tables of integers, texts, doubles and booleans, of which the
parser takes exactly what a column's type says. A record costs a sixth of what it costs by itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as arrow_json

from headwater.client.decode import frames
from headwater.views.tables.arrow_values import Unfit
from headwater.views.tables.decoder import COLUMNS

if TYPE_CHECKING:
    from headwater.views.tables.decoder import Table

MANY, BLOCK = 200, 10_000
"""From so many records on they are read column by column, so many at a time."""
LONG_BYTES = 1000
"""Longer values are read one by one, where all limits of Spark's parser are known."""
_PAYLOAD, _ESCAPE = b'"payload"', b"\\u"
_HALF = re.compile(rb"\\\\u|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F]")
"""The second half of a character without its first; or what a text may have in place of one."""
_KINDS = (pa.types.is_integer, pa.types.is_string, pa.types.is_boolean, pa.types.is_float64)
Record = tuple[Any, ...]
"""As COLUMNS; the timestamp in microseconds."""
Change = tuple[Any, ...]
"""The row's columns, gone, emptied, the key before."""
ReadOne = Callable[[bytes | None, bytes | None], Change]
"""From a record's key and value to its change; `Unfit` where Spark must read it."""
Offsets = Mapping[int, int]
"""Partition → offset."""


@dataclass(frozen=True)
class Read:
    """Records of one table, read as far as they are beyond doubt."""

    changes: pa.Table
    """c0, …, gone, emptied, m0, …, p, o, ts."""
    doubtful: Sequence[Record]
    """For Spark to read."""

    def between(self, start: Offsets, end: Offsets) -> Read:
        """Of the records from `start` up to `end`."""
        inside = pa.array(
            [
                start.get(p, 0) <= o < end.get(p, 0)
                for p, o in zip(
                    self.changes["p"].to_pylist(), self.changes["o"].to_pylist(), strict=True
                )
            ],
            pa.bool_(),
        )
        doubtful = [r for r in self.doubtful if start.get(r[3], 0) <= r[4] < end.get(r[3], 0)]
        return Read(self.changes.filter(inside), doubtful)


class TableReader:
    """Reads the records of one table; says nothing of what is derived from its columns."""

    def __init__(self, table: Table, schema: pa.Schema, change: ReadOne | None) -> None:
        """`schema` is that of changes; without `change`, Spark must read all of them."""
        self.topic = table.topic
        self._schema = schema
        self._change = change
        own = pa.schema([schema.field(n) for n in range(len(table.row.names))])
        self.columns = None if change is None else column_reader(table, own)

    def empty(self) -> pa.Table:
        return self._schema.empty_table()

    def __call__(self, batch: pa.RecordBatch) -> Read:
        """The batch has the columns COLUMNS."""
        mine = batch.filter(pc.equal(batch.column("topic"), self.topic))
        if self.columns is None or mine.num_rows < MANY:
            return self._one_by_one(mine)
        found = [
            self._block(mine.slice(start, BLOCK), self.columns)
            for start in range(0, mine.num_rows, BLOCK)
        ]
        return Read(
            pa.concat_tables([each.changes for each in found]),
            [record for each in found for record in each.doubtful],
        )

    def _block(self, mine: pa.RecordBatch, columns: ColumnReader) -> Read:
        """Column by column, and the rest of it one by one."""
        found = columns(mine.column("value"))
        if found is None:
            return self._one_by_one(mine)
        places = mine.filter(found.read)
        made = found.changes
        for name, place in zip(("p", "o", "ts"), COLUMNS[3:], strict=True):
            column = places.column(place)
            made = made.append_column(name, column.cast(self._schema.field(name).type))
        if made.num_rows == mine.num_rows:
            return Read(made.cast(self._schema), [])
        rest = self._one_by_one(mine.filter(pc.invert(found.read)))
        changes = pa.concat_tables([made.cast(self._schema), rest.changes])
        return Read(changes.sort_by([("p", "ascending"), ("o", "ascending")]), rest.doubtful)

    def _one_by_one(self, mine: pa.RecordBatch) -> Read:
        columns = [mine.column(name) for name in COLUMNS]
        columns[-1] = columns[-1].cast(pa.int64())
        records = zip(*(column.to_pylist() for column in columns), strict=True)
        if self._change is None:
            return Read(self._as_arrow([]), list(records))
        changes, doubtful, change = [], [], self._change
        for record in records:
            key, value, _, *place = record
            try:
                changes.append((*change(key, value), *place))
            except (Unfit, ValueError):
                doubtful.append(record)
        return Read(self._as_arrow(changes), doubtful)

    def _as_arrow(self, changes: Sequence[tuple[Any, ...]]) -> pa.Table:
        schema = self._schema
        columns = zip(*changes, strict=True) if changes else [()] * len(schema)
        arrays = [pa.array(each, kind) for each, kind in zip(columns, schema.types, strict=True)]
        return pa.table(arrays, schema=schema)


# ---- column by column --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Block:
    """What was read of some records."""

    changes: pa.Table
    """c0, …, gone, emptied, m0, …, of the records that were read."""
    read: pa.Array
    """Which of them those are."""


@dataclass
class ColumnReader:
    """Reads blocks of one table's records."""

    columns: pa.Schema
    """c0, …."""
    names: Sequence[str]
    keys: Sequence[int]
    required: Sequence[int]
    """Which columns no row is without, the key's among them."""
    _options: arrow_json.ParseOptions = field(init=False)

    def __post_init__(self) -> None:
        own = [(name, kind) for name, kind in zip(self.names, self.columns.types, strict=True)]
        key = [own[n] for n in self.keys]
        schema = pa.schema(
            [*own, ("op", pa.string()), ("before", pa.struct(key)), ("after", pa.struct(own))]
        )
        self._options = arrow_json.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior="ignore"
        )

    def __call__(self, values: pa.Array) -> Block | None:
        """The changes that values (binary, may be null) are; None where they must be read one by one."""
        there = pc.fill_null(pc.less_equal(pc.binary_length(values), LONG_BYTES), False)
        parsed = self._parsed(values, np.asarray(there, dtype=np.uint8))
        if parsed is None:
            return None
        changes, sure = self._changes(parsed)
        read = np.asarray(there).copy()
        read[read] = np.asarray(sure)
        return Block(changes.filter(sure), pa.array(read))

    def _parsed(self, values: pa.Array, there: np.ndarray) -> pa.Table | None:
        """One row for each value that is there."""
        ends = np.frombuffer(values.buffers()[1], np.int32)
        ends = ends[values.offset : values.offset + len(values) + 1]
        data = np.frombuffer(values.buffers()[2] or b"", np.uint8)
        text, starts, verdicts = frames.frame(data, ends, there)
        count = len(starts) - 1
        if not count or count < int(there.sum()) or verdicts.any():
            return None
        lines = text.tobytes()
        if _PAYLOAD in lines or (_ESCAPE in lines and _HALF.search(lines)):
            return None
        reading = arrow_json.ReadOptions(use_threads=False, block_size=len(lines) + 1)
        try:
            found = arrow_json.read_json(pa.BufferReader(lines), reading, self._options)
        except pa.ArrowException:
            return None
        return found.combine_chunks() if found.num_rows == count else None

    def _changes(self, parsed: pa.Table) -> tuple[pa.Table, pa.Array]:
        """The change that each row says, and whether that is beyond doubt."""
        op, before, after = (_whole(parsed[name]) for name in ("op", "before", "after"))
        plain = pc.is_null(op)
        has_after = pc.is_valid(after)
        gone = pc.fill_null(pc.equal(op, "d"), False)
        old = [_of(before, n) for n in range(len(self.keys))]
        columns = []
        for n, name in enumerate(self.names):
            own = pc.if_else(plain, _whole(parsed[name]), _of(after, n))
            if n in self.keys:
                own = pc.if_else(gone, old[self.keys.index(n)], own)
            columns.append(own)
        moved = pa.array(np.zeros(len(op), bool))
        for n, was in zip(self.keys, old, strict=True):
            moved = pc.or_(moved, pc.fill_null(pc.not_equal(was, columns[n]), False))
        sure = pc.if_else(
            plain,
            pc.and_(pc.is_null(before), pc.is_null(after)),
            pc.or_(gone, has_after),
        )
        for n in self.required:
            fine = pc.is_valid(columns[n])
            sure = pc.and_(sure, fine if n in self.keys else pc.or_(gone, fine))
        for column in (*columns, *old):
            sure = pc.and_(sure, _is_sure(column))
        moved = pc.and_(pc.and_(moved, pc.invert(gone)), pc.invert(plain))
        nothing = [pa.nulls(len(op), each.type) for each in old]
        left = [pc.if_else(moved, was, no) for was, no in zip(old, nothing, strict=True)]
        made = {f"c{n}": column for n, column in enumerate(columns)}
        made |= {"gone": gone, "emptied": pa.array(np.zeros(len(op), bool))}
        return pa.table(made | {f"m{n}": each for n, each in enumerate(left)}), sure


def column_reader(table: Table, columns: pa.Schema) -> ColumnReader | None:
    """For a table that can be read so; `columns`: c0, …."""
    if not all(any(is_kind(kind) for is_kind in _KINDS) for kind in columns.types):
        return None
    required = sorted({*table.keys, *(table.row.names.index(name) for name in table.required)})
    return ColumnReader(columns, table.row.names, table.keys, required)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.array([], column.type)


def _of(structs: pa.Array, n: int) -> pa.Array:
    """A field, null where its struct is."""
    return pc.struct_field(structs, [n])


def _is_sure(column: pa.Array) -> pa.Array:
    """Of a double: neither a zero, which may have lost its sign, nor beyond what there is."""
    if not pa.types.is_floating(column.type):
        return pa.array(np.ones(len(column), bool))
    sure = pc.and_(pc.is_finite(column), pc.not_equal(column, 0.0))
    return pc.fill_null(sure, True)
