"""Arrow columns as PostgreSQL's types, and back. Called by `target` only.

    Arrow                     PostgreSQL           Arrow                PostgreSQL
    int8, int16               smallint             timestamp, UTC       timestamptz
    int32                     integer              timestamp            timestamp
    int64                     bigint               date                 date
    float32, float64          real, double precision  time              time
    boolean                   boolean              duration             interval
    string                    text                 binary               bytea
    decimal(p, s)             numeric(p, s)        struct, list, map    jsonb

Rows go in as CSV that Arrow writes, column by column; null is an empty field without quotes. The server
reads the texts as whatever type the column has, so a table that somebody made may have other types.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from headwater.views.targets.texts import restored, texts

_T = pa.types
_PLAIN: Sequence[tuple[Any, str]] = (
    (_T.is_boolean, "boolean"),
    (_T.is_int64, "bigint"),
    (_T.is_int32, "integer"),
    (_T.is_integer, "smallint"),
    (_T.is_float32, "real"),
    (_T.is_floating, "double precision"),
    (_T.is_date, "date"),
    (_T.is_time, "time"),
    (_T.is_duration, "interval"),
    (_T.is_binary, "bytea"),
    (_T.is_large_binary, "bytea"),
    (_T.is_nested, "jsonb"),
)
_CSV = csv.WriteOptions(include_header=False, quoting_style="all_valid")


def column_type(kind: pa.DataType) -> str:
    if _T.is_decimal(kind):
        return f"numeric({kind.precision},{kind.scale})"
    if _T.is_timestamp(kind):
        return "timestamptz" if kind.tz else "timestamp"
    return next((name for fits, name in _PLAIN if fits(kind)), "text")


_INTEGERS = ("smallint", "integer", "bigint")
_OURS = (*_INTEGERS, "boolean", "real", "double precision", "date", "time", "interval", "bytea",
         "jsonb", "timestamptz", "timestamp")  # fmt: skip

_CHANGING = ("character", "money", "name", '"char"')
"""They add blanks, round, or cut, and say nothing."""


def keeps(ours: str, found: str) -> bool:
    """Whether a column of the type `found` keeps what we would keep in one of ours, or refuses it.

    Types that we do not make ourselves were chosen by somebody for the purpose (varchar(5), uuid). Of ours
    those that are wider or narrower are: a value that is too large is refused. Others would round (also
    timestamp(3)), or read as something else, such as decimals in a column of doubles.
    """
    base, _, precision = found.partition("(")
    if base in _CHANGING or (precision and base in ("timestamp", "time", "interval")):
        return False
    if base == "numeric":
        return _scale(ours) <= _scale(found) or ours in ("real", "double precision")
    if base not in (*_OURS, "text"):
        return True
    if base in _INTEGERS:
        return ours in _INTEGERS
    return base == ours or (base, ours) in (("double precision", "real"), ("text", "jsonb"))


def _scale(kind: str) -> int:
    """Digits behind the point that a type keeps; of no number more than any keeps."""
    base, _, rest = kind.partition("(")
    if base in _INTEGERS:
        return 0
    if base != "numeric":
        return 1 << 20
    return int(rest.rstrip(")").partition(",")[2]) if rest else 1 << 19


def as_csv(rows: pa.RecordBatch) -> bytes:
    """What COPY … FROM STDIN (FORMAT csv) takes."""
    columns = [_text(column) for column in rows.columns]
    names = [str(place) for place in range(len(columns))]
    out = io.BytesIO()
    csv.write_csv(pa.RecordBatch.from_arrays(columns, names=names), out, _CSV)
    return out.getvalue()


def from_postgres(values: list[Any], kind: pa.DataType) -> pa.Array:
    """A column of what psycopg gives back; a table that somebody made may have other types."""
    if _T.is_nested(kind):
        return pa.array([restored(value, kind) for value in values], kind)
    try:
        return pa.array(values, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        found = [None if value is None else str(value) for value in values]
        return pa.array(found, pa.string()).cast(kind)


def _text(column: pa.Array) -> pa.Array:
    kind = column.type
    if _T.is_integer(kind) or _T.is_boolean(kind) or _T.is_string(kind):
        return column
    if _T.is_binary(kind) or _T.is_large_binary(kind):
        found = [None if v is None else "\\x" + v.hex() for v in column.to_pylist()]
        return pa.array(found, pa.string())
    if _T.is_duration(kind):
        micros = column.cast(pa.duration("us")).cast(pa.int64()).cast(pa.string())
        return pc.binary_join_element_wise(micros, "microseconds", " ")
    if _T.is_time(kind):
        return column.cast(pa.string())
    return texts(column)
