"""Values that hurt, by type, and names that do: one table for everything that rows pass through.

For whoever writes a target, an operator or a function over rows, and wants to know what becomes of the
values that people forget. headwater's own operators, sources, sinks and targets all run through it.

    COLUMNS          a column of each type of Spark's, with its values
    rows(COLUMNS)    one row for each value: an id, that value, and null in every other column
    exact(array)     values as they can be compared: NaN is itself, -0.0 is 0.0, a map has no order
    NAMES            column names: keywords, ours, punctuation, and pairs that differ in case alone

A value is written down as Arrow has it, since Python's own types end at the year 9999.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

ID = "id"
MOMENT, LOCAL = pa.timestamp("us", "UTC"), pa.timestamp("us")
MEGABYTE = 1_000_000
_EPOCH = dt.datetime(1970, 1, 1)
_DAY_US = 86_400 * 1_000_000


@dataclass(frozen=True)
class Column:
    """A type, under a name that says which, and its values."""

    name: str
    ddl: str
    """As Spark's SQL spells the type."""
    values: pa.Array

    @property
    def kind(self) -> pa.DataType:
        return self.values.type

    def __repr__(self) -> str:
        return f"Column({self.name}, {len(self.values)} values)"


def _column(name: str, ddl: str, kind: pa.DataType, values: Iterable[Any]) -> Column:
    return Column(name, ddl, pa.array(list(values), kind))


def _of_numbers(name: str, ddl: str, kind: pa.DataType, numbers: Iterable[int]) -> Column:
    """For times: given as the numbers that they are stored as."""
    base = pa.int32() if pa.types.is_date32(kind) else pa.int64()
    return Column(name, ddl, pa.array(list(numbers), base).cast(kind))


# ---- numbers ------------------------------------------------------------------------------------------


def _integers(bits: int) -> list[int]:
    top = 2 ** (bits - 1)
    found = [0, 1, -1, top - 1, -top]
    return found + ([2**53 + 1, -(2**53) - 1, 10**17 + 1] if bits == 64 else [])


FLOATS = (
    0.0, -0.0, 1.0, 0.1, -1.5, math.nan, math.inf, -math.inf, 3.4028234663852886e38, 1e-45, 16777217.0,
)  # fmt: skip
DOUBLES = (
    *FLOATS, 1.7976931348623157e308, 5e-324, 2.0**53, 1e17, 1e300, -1e300, 1 / 3, 123456789.123456789,
)  # fmt: skip


def decimals(precision: int, scale: int) -> Column:
    """The extremes of a decimal type, its smallest step, and every digit."""
    step = Decimal((0, (1,), -scale))
    most = Decimal((0, (9,) * precision, -scale))
    digits = Decimal((0, tuple((n % 9) + 1 for n in range(precision)), -scale))
    values = [most, most.copy_negate(), step, step.copy_negate(), Decimal(0), digits]
    kind = pa.decimal128(precision, scale)
    return _column(f"decimal_{precision}_{scale}", f"DECIMAL({precision},{scale})", kind, values)


def all_decimals() -> list[Column]:
    """At every precision, without a fraction, with some, and with nothing else."""
    return [
        decimals(precision, scale)
        for precision in range(1, 39)
        for scale in sorted({0, precision // 2, precision})
    ]


# ---- times --------------------------------------------------------------------------------------------


def _us(text: str) -> int:
    return (dt.datetime.fromisoformat(text) - _EPOCH) // dt.timedelta(microseconds=1)


MOMENTS = (
    "0001-01-01T00:00:00", "0001-01-01T00:00:00.000001", "1582-10-04T23:59:59.999999",
    "1582-10-15T00:00:00", "1677-09-21T00:12:43", "1883-11-18T12:00:00", "1899-12-31T23:59:59",
    "1969-12-31T23:59:59.999999", "1970-01-01T00:00:00", "2026-03-29T01:00:00", "2026-03-29T02:30:00",
    "2026-10-25T00:30:00", "2026-10-25T01:30:00", "2026-10-25T02:30:00", "2026-11-01T06:30:00.123456",
    "2038-01-19T03:14:08", "2262-04-11T23:47:16.854776", "9999-12-31T23:59:59.999999",
)  # fmt: skip
"""Across the ends of calendars, of clocks, of nanoseconds, and across daylight saving in Berlin and New
York: 02:30 of a March is in no clock there, 02:30 of an October is twice."""
BEYOND_US = (253_402_300_800_000_000, 253_402_300_800_000_001, 4_102_444_800_000_000_000)
"""From the year 10000 on."""
BEFORE_US = (-62_135_596_800_000_001, -62_167_219_200_000_000, -62_198_755_200_000_000)
"""The years 0 and before."""


def _moments() -> list[int]:
    return [*map(_us, MOMENTS), *BEYOND_US, *BEFORE_US]


# ---- texts and bytes ----------------------------------------------------------------------------------

TEXTS = (
    "", " ", "a", "trailing ", " leading", "null", "NULL", "NaN", "true", "0", "-0", "1e5", "007",
    "é", "e\u0301", "Å", "A\u030a", "ﬁ", "İ", "ı", "ß", "ẞ",
    "👩‍👩‍👧‍👦", "🇩🇪", "👍🏽", "\U0010ffff", "\uffff", "\ufeffbom", "\u202egnp.exe", "漢字かな交じり文", "ไทย",
    "nul\x00inside", "\x00", "\x01\x1f\x7f\x80", "line\nline", "cr\r\nlf", "tab\tbed", "\u2028", "\u0085",
    "quote'quote", 'quote"quote', "`tick`", "back\\slash", "\\", "\\N", "\\x41", "%s %d {x} $1 ?", ";--",
    "a:b", "a,b", "[1]", '{"a": 1}', "<b>&amp;</b>", "x" * 64, "word " * 40,
)  # fmt: skip
BLOBS = (
    b"",
    b"\x00",
    b"a\x00b",
    bytes(range(256)),
    b"\xff\xfe",
    b"\xc3\x28",
    b"{}",
    b'"',
    b"\\x00",
)


# ---- nested -------------------------------------------------------------------------------------------

_POINT = pa.struct([("x", pa.float64()), ("y", pa.int64()), ("name", pa.string())])
_PRICE = pa.decimal128(38, 18)
_NESTED: Sequence[tuple[str, str, pa.DataType, Sequence[Any]]] = (
    ("texts", "ARRAY<STRING>", pa.list_(pa.string()),
     [[], [None], ["a", None, ""], ["nul\x00", "👍🏽", 'q"\\'], [None] * 3]),
    ("doubles", "ARRAY<DOUBLE>", pa.list_(pa.float64()),
     [[], [None, 1.0], [math.nan, math.inf, -0.0], [1e300, 5e-324]]),
    ("prices", "ARRAY<DECIMAL(38,18)>", pa.list_(_PRICE),
     [[], [None], [Decimal("99999999999999999999.999999999999999999"), Decimal("1E-18")]]),
    ("deep", "ARRAY<ARRAY<INT>>", pa.list_(pa.list_(pa.int32())),
     [[], [[]], [None, [None], [1, None]], [[2**31 - 1], [-(2**31)]]]),
    ("point", "STRUCT<x: DOUBLE, y: BIGINT, name: STRING>", _POINT,
     [{"x": None, "y": None, "name": None}, {"x": math.nan, "y": 2**63 - 1, "name": "a\x00"},
      {"x": -0.0, "y": -(2**63), "name": "e\u0301"}]),
    ("points", "ARRAY<STRUCT<x: DOUBLE, y: BIGINT, name: STRING>>", pa.list_(_POINT),
     [[], [None], [{"x": 1.0, "y": None, "name": ""}, None]]),
    ("labels", "MAP<STRING, STRING>", pa.map_(pa.string(), pa.string()),
     [[], [("a", None)], [("", ""), ("k\x00", "v"), ("é", "1"), ("e\u0301", "2")]]),
    ("rates", "MAP<STRING, DECIMAL(38,18)>", pa.map_(pa.string(), _PRICE),
     [[], [("a", Decimal("123456789012345678.91"))], [("b", None)]]),
    ("by_number", "MAP<INT, DOUBLE>", pa.map_(pa.int32(), pa.float64()),
     [[], [(2**31 - 1, math.nan), (0, -0.0)], [(-1, None)]]),
    ("lists", "MAP<STRING, ARRAY<BIGINT>>", pa.map_(pa.string(), pa.list_(pa.int64())),
     [[], [("a", None)], [("a", [None, 2**63 - 1]), ("b", [])]]),
    ("holder", "STRUCT<m: MAP<STRING, STRING>>", pa.struct([("m", pa.map_(pa.string(), pa.string()))]),
     [{"m": None}, {"m": []}, {"m": [("b", "1"), ("a", None)]}]),
    ("times", "ARRAY<TIMESTAMP>", pa.list_(MOMENT),
     [[], [None, dt.datetime(2026, 3, 29, 2, 30, tzinfo=dt.UTC)],
      [dt.datetime(1, 1, 1, tzinfo=dt.UTC), dt.datetime(9999, 12, 31, 23, 59, 59, 999999, dt.UTC)]]),
    ("days", "STRUCT<day: DATE, at: TIMESTAMP_NTZ>", pa.struct([("day", pa.date32()), ("at", LOCAL)]),
     [{"day": None, "at": None}, {"day": dt.date(1, 1, 1), "at": dt.datetime(2026, 3, 29, 2, 30)},
      {"day": dt.date(9999, 12, 31), "at": dt.datetime(2026, 10, 25, 2, 30, 0, 1)}]),
    ("blobs", "ARRAY<BINARY>", pa.list_(pa.binary()), [[], [None], [b"", b"\x00\xff"]]),
)  # fmt: skip


# ---- the table ----------------------------------------------------------------------------------------

PRECISIONS = ((1, 0), (1, 1), (9, 2), (10, 0), (18, 9), (19, 0), (20, 4), (28, 14), (29, 1), (38, 0),
              (38, 18), (38, 38))  # fmt: skip
"""Where decimals change how they are stored, somewhere."""


def _columns() -> Iterator[Column]:
    yield _column("truth", "BOOLEAN", pa.bool_(), [True, False])
    yield _column("tiny", "TINYINT", pa.int8(), _integers(8))
    yield _column("small", "SMALLINT", pa.int16(), _integers(16))
    yield _column("whole", "INT", pa.int32(), _integers(32))
    yield _column("large", "BIGINT", pa.int64(), _integers(64))
    yield _column("single", "FLOAT", pa.float32(), FLOATS)
    yield _column("double", "DOUBLE", pa.float64(), DOUBLES)
    yield from (decimals(*each) for each in PRECISIONS)
    days = [us // _DAY_US for us in _moments()]
    yield _of_numbers("day", "DATE", pa.date32(), dict.fromkeys(days))
    yield _of_numbers("moment", "TIMESTAMP", MOMENT, _moments())
    yield _of_numbers("local", "TIMESTAMP_NTZ", LOCAL, _moments())
    yield _column("text", "STRING", pa.string(), TEXTS)
    yield _column("blob", "BINARY", pa.binary(), BLOBS)
    yield from (_column(*each) for each in _NESTED)


COLUMNS = tuple(_columns())
LARGE = (
    _column("text", "STRING", pa.string(), ["x" * MEGABYTE, "é👍🏽\x00" * (MEGABYTE // 10)]),
    _column("blob", "BINARY", pa.binary(), [b"\x00\xff" * (MEGABYTE // 2)]),
)
"""A megabyte each: more than a record of Kafka's may have by default, with all around it."""


def column(name: str) -> Column:
    return next(each for each in COLUMNS if each.name == name)


def rows(columns: Sequence[Column] = COLUMNS, first: int = 0) -> pa.Table:
    """One row for each value, which has that value and its id alone; the last has nothing but an id."""
    total = sum(len(each.values) for each in columns) + 1
    arrays, begin = [pa.array(range(first, first + total), pa.int64())], 0
    for each in columns:
        after = total - begin - len(each.values)
        parts = [pa.nulls(begin, each.kind), each.values, pa.nulls(after, each.kind)]
        arrays.append(pa.concat_arrays(parts))
        begin += len(each.values)
    return pa.table(arrays, names=[ID, *(each.name for each in columns)])


def ddl(columns: Sequence[Column] = COLUMNS) -> str:
    """The schema of `rows`, as Spark's SQL spells it."""
    return ", ".join([f"{ID} BIGINT", *(f"`{each.name}` {each.ddl}" for each in columns)])


def exact(values: pa.Array | pa.ChunkedArray) -> list[Any]:
    """As they can be compared and be keys of a dict: equal where Spark says they are."""
    return [_exact(each) for each in values]


def _exact(value: pa.Scalar) -> Any:
    if not value.is_valid:
        return None
    kind = value.type
    if pa.types.is_floating(kind):
        number = value.as_py()
        return "NaN" if math.isnan(number) else number + 0.0
    if pa.types.is_temporal(kind):
        return value.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).as_py()
    if pa.types.is_map(kind):
        pairs = [tuple(_exact(part) for part in pair.values()) for pair in value.values or ()]
        return ("map", *sorted(pairs, key=repr))
    if pa.types.is_struct(kind):
        return ("struct", *((name, _exact(part)) for name, part in value.items()))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return ("list", *(_exact(each) for each in value.values))
    return value.as_py()


# ---- names --------------------------------------------------------------------------------------------

NAMES = (
    "select", "order", "group", "user", "table", "from", "where", "null", "true", "default", "current_date",
    "rowid", "oid", "ctid", "xmin", "tableoid", "_id", "_source", "_score", "_rowid_",
    "a b", "a.b", "a-b", "a:b", "a/b", "a'b", 'a"b', "a`b", "a;b", "a\\b", "a,b", "a(b)", "a[0]", "%s", "{x}",
    "$1", "?", "1", "1a", "#", "*", "é", "e\u0301", "👍🏽", "漢字", "x" * 60, "x" * 63 + "y", "x" * 63 + "z",
    "n", "at", "since", "until", "look", "before", "last", "after", "op", "payload", "schema", "key", "value",
    "topic", "partition", "offset", "timestamp", "headers", "window", "event_time", "tick", "watermark", "p",
    "o", "bad", "whole", "empty", "c0", "d0", "t0", "gone", "emptied", "m0", "batch", "epoch", "position",
    "version", "row", "part", "current", "valid_from", "valid_to", "element", "entries", "col", "struct",
    "_n", "_order", "_headwater", "_headwater_good", "_headwater_broken", "headwater", "_value", "_text",
)  # fmt: skip
"""Each is a column's name that somebody has."""
MARKS = ("_key", "_topic", "_partition", "_offset", "_timestamp", "_op", "_deleted", "_before",
         "_valid_from")  # fmt: skip
"""Names that headwater itself gives to columns beside the row's own."""
SAME_BUT_CASE = ("name", "Name")
EMPTY_NAME = ""
