"""The decoder: by bytes, cut short at every place, with bytes too many, and on any bytes at all."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.capture.envelope import NULL, UNAVAILABLE
from headwater.capture.postgres import copy_rows, pgoutput, types
from headwater.capture.postgres.pgoutput import Malformed

CONVERTERS = (types.number, types.text)


def row(*values: bytes | str | None) -> bytes:
    parts = [struct.pack(">H", len(values))]
    for value in values:
        if value is None:
            parts.append(b"n")
        elif isinstance(value, str):
            parts.append(b"u")
        else:
            parts.append(b"t" + struct.pack(">i", len(value)) + value)
    return b"".join(parts)


RELATION = (
    b"R" + struct.pack(">I", 16385) + b"public\0orders\0d" + struct.pack(">H", 2)
    + b"\1id\0" + struct.pack(">Ii", 23, -1) + b"\0note\0" + struct.pack(">Ii", 25, -1)
)  # fmt: skip
BEGIN = b"B" + struct.pack(">qqI", 5000, 1_000_000, 77)
COMMIT = b"C" + struct.pack(">Bqqq", 0, 5000, 5048, 1_000_000)
INSERT = b"I" + struct.pack(">I", 16385) + b"N" + row(b"7", b'a"b')
UPDATE = b"U" + struct.pack(">I", 16385) + b"K" + row(b"6", None) + b"N" + row(b"7", "unchanged")
DELETE = b"D" + struct.pack(">I", 16385) + b"O" + row(b"7", b"x")
TRUNCATE = b"T" + struct.pack(">IB", 2, 1) + struct.pack(">2I", 16385, 16390)
MESSAGE = b"M" + struct.pack(">Bq", 1, 4711) + b"greeting\0" + struct.pack(">i", 2) + b"hi"

DECODERS: list[tuple[bytes, Callable[[bytes], Any]]] = [
    (BEGIN, pgoutput.begin),
    (COMMIT, pgoutput.commit),
    (RELATION, lambda data: pgoutput.relation(data, 1)),
    (INSERT, lambda data: pgoutput.insert(data, 5, CONVERTERS)),
    (UPDATE, lambda data: pgoutput.update(data, 5, CONVERTERS)),
    (DELETE, lambda data: pgoutput.delete(data, 5, CONVERTERS)),
    (TRUNCATE, lambda data: pgoutput.truncate(data, 1)),
    (MESSAGE, lambda data: pgoutput.message(data, 1)),
]


def test_each_message_says_what_it_holds() -> None:
    assert pgoutput.begin(BEGIN) == (5000, pgoutput.EPOCH_US + 1_000_000, 77)
    assert pgoutput.commit(COMMIT) == (5000, 5048, pgoutput.EPOCH_US + 1_000_000)
    relation = pgoutput.relation(RELATION, 1)
    assert (relation.namespace, relation.name, relation.identity) == ("public", "orders", "d")
    assert relation.columns == (("id", 23, -1, True), ("note", 25, -1, False))
    assert pgoutput.insert(INSERT, 5, CONVERTERS) == ["7", '"a\\"b"']
    assert pgoutput.update(UPDATE, 5, CONVERTERS) == ("K", ["6", NULL], ["7", UNAVAILABLE])
    assert pgoutput.delete(DELETE, 5, CONVERTERS) == ("O", ["7", '"x"'])
    assert pgoutput.truncate(TRUNCATE, 1) == (16385, 16390)
    assert pgoutput.message(MESSAGE, 1) == (True, 4711, "greeting", b"hi")


@pytest.mark.parametrize(("message", "decode"), DECODERS)
def test_a_message_cut_anywhere_or_with_bytes_behind_it_is_refused(
    message: bytes, decode: Callable[[bytes], Any]
) -> None:
    decode(message)
    for length in range(1, len(message)):
        with pytest.raises(Malformed):
            decode(message[:length])
    with pytest.raises(Malformed):
        decode(message + b"\0")


@given(st.binary(max_size=60), st.sampled_from(DECODERS))
def test_any_bytes_parse_or_are_refused(
    data: bytes, pair: tuple[bytes, Callable[[bytes], Any]]
) -> None:
    message, decode = pair
    try:
        decode(message[:5] + data)
    except (Malformed, UnicodeDecodeError):
        pass


def test_a_row_with_another_number_of_columns_is_refused() -> None:
    with pytest.raises(Malformed, match="1 columns, but the relation has 2"):
        pgoutput.row(row(b"7"), 0, CONVERTERS)


def escaped(value: bytes | None) -> bytes:
    if value is None:
        return b"\\N"
    for plain, shown in ((b"\\", b"\\\\"), (b"\n", b"\\n"), (b"\t", b"\\t"), (b"\r", b"\\r")):
        value = value.replace(plain, shown)
    return value


@given(st.lists(st.tuples(*[st.none() | st.text(st.characters(codec="utf-8"))] * 2), max_size=5))
def test_copied_rows_come_back_as_they_were(rows: list[tuple[str | None, str | None]]) -> None:
    data = b"".join(
        b"\t".join(escaped(None if v is None else v.encode()) for v in r) + b"\n" for r in rows
    )
    shown = copy_rows.rows(data, (types.text, types.text))
    assert shown == [tuple("null" if v is None else types.quote(v) for v in r) for r in rows]


@pytest.mark.parametrize(
    ("text", "days"),
    [("1970-01-01", 0), ("2000-02-29", 11016), ("1600-12-31", -134775), ("0001-01-01 BC", -719528)],
)
def test_days_are_counted_in_any_year(text: str, days: int) -> None:
    assert types.date(text.encode()) == str(days)
