"""JSON values to a column of structs: Arrow's own parser for all rows at once, Python only for the rest.

The values are put one behind the other (`decode.frames`) and parsed as JSON lines. Arrow's parser stops
at the first row that does not fit; then the rows before it and those behind it are parsed apart, so that
each bad row costs two attempts and the good ones keep their speed. Types that Arrow's parser does not
know (maps) are read value by value.

A field that is missing is null; one that is not in the schema is ignored; a number in place of a string
does not fit, nor does a fraction in place of an integer. Timestamps and dates are ISO 8601, in UTC where
they name no zone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json as arrow_json
from numpy.typing import NDArray

from headwater.spark.decode import frames
from headwater.spark.source.values import python
from headwater.spark.source.values.typed import Bad

_ROW = re.compile(r" in row (\d+)")
_PARSED = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_string,
    pa.types.is_binary,
    pa.types.is_timestamp,
    pa.types.is_date32,
)


class JsonValues:
    """For one schema."""

    def __init__(self, kind: pa.StructType) -> None:
        self._kind = kind
        self._fields = list(kind)
        self._required = [n for n, each in enumerate(self._fields) if not each.nullable]
        self._is_plain = bool(self._fields) and all(_is_parsed(each.type) for each in self._fields)
        named = pa.schema([(each.name, _as_parsed(each.type)) for each in self._fields])
        self._options = arrow_json.ParseOptions(
            explicit_schema=named, unexpected_field_behavior="ignore"
        )

    def convert(self, column: pa.Array) -> tuple[pa.Array, Sequence[Bad]]:
        """Structs for the rows that fit (null for null), and those that do not."""
        if not self._is_plain:
            return python.convert(column, self._kind, _parse)
        ends = np.frombuffer(column.buffers()[1], np.int32)[: len(column) + 1]
        data = np.frombuffer(column.buffers()[2] or b"", np.uint8)
        there = np.asarray(column.is_valid(), dtype=np.uint8)
        text, starts, verdicts = frames.frame(data, ends, there)
        bad = [Bad(int(n), frames.REASONS[verdicts[n]]) for n in np.flatnonzero(verdicts)]
        rows = np.flatnonzero((verdicts == frames.GOOD) & (there == 1))
        parts, more = self._parse(text, starts)
        bad = sorted([*bad, *(Bad(int(rows[n]), reason) for n, reason in more)])
        structs = pa.concat_arrays(parts) if parts else pa.array([], self._kind)
        return python.with_nulls(structs, there, bad), bad

    # ---- many rows at once ----------------------------------------------------------------------

    def _parse(
        self, text: NDArray[np.uint8], starts: NDArray[np.int64]
    ) -> tuple[list[pa.Array], list[tuple[int, str]]]:
        """All rows, as arrays in their order, and the numbers of those that do not fit."""
        parts: list[pa.Array] = []
        bad: list[tuple[int, str]] = []
        waiting = [(0, len(starts) - 1)]
        while waiting:
            first, end = waiting.pop()
            if first == end:
                continue
            found = self._attempt(text[starts[first] : starts[end]], end - first)
            if not isinstance(found, str):
                parts.append(found)
                continue
            if end - first == 1:
                bad.append((first, _ROW.sub("", found)))
                continue
            match = _ROW.search(found)
            middle = first + int(match[1]) if match else (first + end) // 2
            halves = [(first, middle), (middle, middle + 1), (middle + 1, end)]
            waiting += reversed(halves if match else [(first, middle), (middle, end)])
        return parts, sorted(bad)

    def _attempt(self, text: NDArray[np.uint8], rows: int) -> pa.Array | str:
        """These rows, or why not."""
        reading = arrow_json.ReadOptions(use_threads=False, block_size=len(text) + 1)
        try:
            table = arrow_json.read_json(
                pa.BufferReader(pa.py_buffer(text)), reading, self._options
            )
            arrays = [
                table.column(n).combine_chunks().cast(each.type)
                for n, each in enumerate(self._fields)
            ]
        except pa.ArrowException as error:
            return str(error).removeprefix("JSON parse error: ")
        if table.num_rows != rows:
            return f"{rows} JSON objects were read as {table.num_rows}"
        for n in self._required:
            if arrays[n].null_count:
                row = int(np.argmax(np.asarray(arrays[n].is_null())))
                return f"field {self._fields[n].name} is missing in row {row}"
        return pa.StructArray.from_arrays(arrays, fields=self._fields)


def _is_parsed(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return kind.num_fields > 0 and all(_is_parsed(each.type) for each in kind)
    if pa.types.is_list(kind):
        return _is_parsed(kind.value_type)
    return any(is_kind(kind) for is_kind in _PARSED)


def _as_parsed(kind: pa.DataType) -> pa.DataType:
    """Arrow's parser takes a date only as a number of days: as a time it may be text."""
    if pa.types.is_date32(kind):
        return pa.timestamp("s")
    if pa.types.is_struct(kind):
        return pa.struct([(each.name, _as_parsed(each.type)) for each in kind])
    if pa.types.is_list(kind):
        return pa.list_(_as_parsed(kind.value_type))
    return kind


def _parse(value: bytes) -> Any:
    try:
        found = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise python.Misfit(f"no JSON: {error}") from None
    if not isinstance(found, dict):
        raise python.Misfit(frames.REASONS[frames.NO_OBJECT])
    return found
