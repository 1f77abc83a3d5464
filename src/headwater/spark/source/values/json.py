"""JSON values to a column of structs: Arrow's own parser for all rows at once, Python only for the rest.

The values are put one behind the other (`decode.frames`) and parsed as JSON lines. Arrow's parser stops
at the first row that does not fit; then the rows before it and those behind it are parsed apart, so that
each bad row costs two attempts and the good ones keep their speed. Types that Arrow's parser does not
know (maps) are read value by value, and so is a row that it gives up with a decimal or a float: one that is
written with more digits than its type has may still be a number of it (1.50000 in a DECIMAL(3,2)), and
"NaN" is one. And so is a row that has become infinite, which it may have been only by being too large.

A field that is missing is null; one that is not in the schema is ignored; a number in place of a string
does not fit, nor does a fraction in place of an integer, a number in place of a time, or a number beyond the
largest of its type. Timestamps are ISO 8601, in UTC where they name no zone, and TIMESTAMP_NTZ names none;
dates have no time; bytes are base64; "NaN", "Infinity" and "-Infinity" are numbers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as arrow_json
from numpy.typing import NDArray

from headwater.client.decode import frames
from headwater.spark.source.values import python
from headwater.spark.source.values.schema import Bad

_NO_NUMBERS = [f'"{each}"'.encode() for each in python.NO_NUMBERS]
_INFINITE = "a number is infinite"
_FAR_DIGITS = "a number has digits far behind the point"
_NOT_SURE = ("to decimal", "Decimal value", _INFINITE, _FAR_DIGITS)
_FAR = r'[\d.][eE]-0*([5-9]\d|[1-9]\d{2,9})[\s,}\]"]|\.\d{27}|\\u00(3\d|[46]5|2[bBdDeE])'
"""Of a decimal, Arrow looks up 10^(digits behind the point) in a table of 77, wherever that leads. An escape
may hide such a number."""
_DIGITS_MAX = 76
_PARSER = "JSON parse error: "
_ROW = re.compile(r" in row (\d+)$")
_PARSED = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_string,
    pa.types.is_timestamp,
    pa.types.is_date32,
)


class _Refused(NamedTuple):
    """Why rows do not fit, and which of them it is, where that is known."""

    reason: str
    row: int | None = None


class JsonValues:
    """For one schema."""

    def __init__(self, kind: pa.StructType) -> None:
        self._kind = kind
        self._fields = list(kind)
        self._required = [n for n, each in enumerate(self._fields) if not each.nullable]
        self._is_plain = bool(self._fields) and all(_is_parsed(each.type) for each in self._fields)
        self._has_floats = any(
            "float" in str(each.type) or "double" in str(each.type) for each in kind
        )
        self._has_decimals = any("decimal" in str(each.type) for each in kind)
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
            if not isinstance(found, _Refused):
                parts.append(found)
                continue
            if end - first == 1:
                row = self._once_more(text[starts[first] : starts[end]], found.reason)
                if isinstance(row, str):
                    bad.append((first, row))
                else:
                    parts.append(row)
                continue
            if found.row is None or found.row >= end - first:
                middle = (first + end) // 2
                waiting += [(middle, end), (first, middle)]
            else:
                middle = first + found.row
                waiting += [(middle + 1, end), (middle, middle + 1), (first, middle)]
        return parts, sorted(bad)

    def _once_more(self, text: NDArray[np.uint8], reason: str) -> pa.Array | str:
        """One row that Arrow's parser has refused: perhaps for a number that it only spells otherwise."""
        spelt = self._has_floats and any(each in text.tobytes() for each in _NO_NUMBERS)
        if not spelt and not any(words in reason for words in _NOT_SURE):
            return reason
        found, bad = python.convert(pa.array([text.tobytes()], pa.binary()), self._kind, _parse)
        return bad[0].reason if bad else found

    def _attempt(self, text: NDArray[np.uint8], rows: int) -> pa.Array | _Refused:
        """These rows, or why not."""
        if self._has_decimals and _has_far_digits(text):
            return _Refused(_FAR_DIGITS)
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
            return _refused(str(error))
        if table.num_rows != rows:
            return _Refused(f"{rows} JSON objects were read as {table.num_rows}")
        for n in self._required:
            if arrays[n].null_count:
                row = int(np.argmax(np.asarray(arrays[n].is_null())))
                return _Refused(f"field {self._fields[n].name} is missing", row)
        if self._has_floats and any(pc.any(pc.is_inf(each)).as_py() for each in _floats(arrays)):
            return _Refused(_INFINITE)
        return pa.StructArray.from_arrays(arrays, fields=self._fields)


def _has_far_digits(text: NDArray[np.uint8]) -> bool:
    return bool(pc.match_substring_regex(pa.scalar(text.tobytes(), pa.binary()), _FAR).as_py())


def _refused(said: str) -> _Refused:
    """Only the parser counts rows: other errors quote the value, which may say anything."""
    match = _ROW.search(said) if said.startswith(_PARSER) else None
    reason = said[: match.start()] if match else said
    return _Refused(reason.removeprefix(_PARSER), int(match[1]) if match else None)


def _is_parsed(kind: pa.DataType) -> bool:
    """What may not be null inside of another only Python tells: Arrow takes it for null with what is around
    it, and takes a list whatever is in it."""
    if pa.types.is_struct(kind):
        return kind.num_fields > 0 and all(each.nullable and _is_parsed(each.type) for each in kind)
    if pa.types.is_list(kind):
        return bool(kind.value_field.nullable) and _is_parsed(kind.value_type)
    return any(is_kind(kind) for is_kind in _PARSED)


def _floats(arrays: Sequence[pa.Array]) -> Iterator[pa.Array]:
    """All floats that are in them, at any depth."""
    for each in arrays:
        if pa.types.is_floating(each.type):
            yield each
        elif pa.types.is_struct(each.type) or pa.types.is_list(each.type):
            yield from _floats(
                each.flatten() if pa.types.is_struct(each.type) else [each.flatten()]
            )


def _as_parsed(kind: pa.DataType) -> pa.DataType:
    """Arrow's parser takes a date only as a number of days, and drops the zone of a time that has none: as
    texts both are cast, which is strict. And where it adds zeros to a decimal (1e20 in a DECIMAL(38,18)) it
    does not see that there is no room for them: so there is enough, and the cast looks."""
    if pa.types.is_date32(kind) or (pa.types.is_timestamp(kind) and kind.tz is None):
        return pa.string()
    if pa.types.is_decimal(kind):
        return pa.decimal256(_DIGITS_MAX - kind.scale, kind.scale)
    if pa.types.is_struct(kind):
        return pa.struct([(each.name, _as_parsed(each.type)) for each in kind])
    if pa.types.is_list(kind):
        return pa.list_(_as_parsed(kind.value_type))
    return kind


def _parse(value: bytes) -> Any:
    try:
        # As a float, a number would have lost digits before anybody asks whether it is a decimal.
        found = json.loads(value.decode(), parse_float=Decimal, object_pairs_hook=python.Object)
    except (ValueError, RecursionError, InvalidOperation) as error:
        raise python.Misfit(f"no JSON: {error}") from None
    if not isinstance(found, dict):
        raise python.Misfit(frames.REASONS[frames.NO_OBJECT])
    return found
