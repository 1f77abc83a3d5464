"""The decoders without a server: whole, cut short, and any bytes at all."""

from __future__ import annotations

import struct
import zlib
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.capture.errors import BinlogUnreadable, CaptureError
from headwater.capture.mysql import ddl, events, numbers, table_map, values
from headwater.capture.mysql import table_map as wire
from headwater.capture.mysql.columns import Description, Style
from headwater.capture.mysql.gtid import Gtid, GtidPosition
from headwater.capture.mysql.rows import RowDecoder
from headwater.capture.mysql.table_map import Wire

# Database d, table t: id INT UNSIGNED NOT NULL, v VARCHAR(9) latin1, e ENUM('a','b'); key id.
MAP = (
    b"\x01d\0\x01t\0\x03"
    + bytes([wire.LONG, wire.VARCHAR, wire.STRING])
    + b"\x04\x09\x00\xf7\x01"
    + b"\x06"
    + b"\x01\x01\x80"  # signedness
    + b"\x02\x01\x08"  # default collation of text: 8
    + b"\x0a\x01\x08"  # … of enums
    + b"\x04\x07\x02id\x01v\x01e"
    + b"\x06\x05\x02\x01a\x01b"
    + b"\x08\x01\x00"
)


def test_a_table_map_says_all_there_is_to_know() -> None:
    seen = table_map.parse(MAP)
    assert (seen.database, seen.table, seen.names) == ("d", "t", ("id", "v", "e"))
    assert seen.wires == (Wire(wire.LONG), Wire(wire.VARCHAR, 9), Wire(wire.ENUM, 1))
    assert seen.nullable == (False, True, True)
    assert seen.unsigned == (True, False, False)
    assert seen.collations == (None, 8, 8)
    assert seen.members == (None, None, (b"a", b"b"))
    assert seen.key == (0,)


@pytest.mark.parametrize("length", range(len(MAP)))
def test_a_table_map_cut_short_is_an_error_or_knows_less(length: int) -> None:
    try:
        seen = table_map.parse(MAP[:length])
    except BinlogUnreadable:
        return
    assert len(seen.wires) == 3, "only the optional parts at its end may be missing"


@given(st.binary(max_size=200))
def test_any_bytes_are_a_table_map_or_an_error(data: bytes) -> None:
    try:
        table_map.parse(data)
    except CaptureError:
        pass


FIELDS = [
    values.field(column, Style())
    for column in (
        Description("id", Wire(wire.LONG), False, True),
        Description("v", Wire(wire.VARCHAR, 300), True, charset="utf8mb4"),
        Description("d", Wire(wire.NEWDECIMAL, 12, 3), True),
        Description("t", Wire(wire.DATETIME2, 3), True),
        Description("e", Wire(wire.ENUM, 1), True, charset="utf8mb4", members=("a", "b")),
        Description("s", Wire(wire.SET, 1), True, charset="utf8mb4", members=("a", "b")),
        Description("b", Wire(wire.BLOB, 2), True, charset="binary"),
        Description("g", Wire(wire.GEOMETRY, 4), True, charset="binary"),
        Description("c", Wire(wire.BLOB_COMPRESSED, 2), True, charset="utf8mb4"),
    )
]


@given(st.binary(max_size=300), st.sampled_from([23, 24, 25, 30, 31, 32, 166, 167, 171]))
def test_any_bytes_are_rows_or_an_error(data: bytes, kind: int) -> None:
    decoder = RowDecoder(FIELDS)
    try:
        decoder.images(kind, bytes(8) + data, 0, len(data) + 8)
    except CaptureError:
        pass


@given(st.binary(max_size=120))
def test_any_bytes_after_a_right_beginning_are_rows_or_an_error(data: bytes) -> None:
    event = bytes(8) + b"\x09\xff\x01" + data
    try:
        RowDecoder(FIELDS).images(events.WRITE_V1, event, 0, len(event))
    except CaptureError:
        pass


@given(st.binary(max_size=100))
def test_any_bytes_are_an_event_body_or_an_error(data: bytes) -> None:
    for read in (events.format_description, events.rotate, events.query, events.compressed_query):
        try:
            read(data, 0, len(data))
        except CaptureError:
            pass
    try:
        events.gtid(data, 0, len(data), 1)
        events.uncompress(data, 0, len(data))
    except CaptureError:
        pass


def test_rows_that_end_elsewhere_than_their_event_are_an_error() -> None:
    decoder = RowDecoder(FIELDS[:2])
    row = b"\x02\x03" + b"\x00" + struct.pack("<I", 7) + b"\x02\x00hi"
    assert decoder.images(events.WRITE_V1, bytes(8) + row, 0, 8 + len(row)) == [(7, '"hi"')]
    for wrong in (row + b"\0", row[:-1]):
        with pytest.raises(BinlogUnreadable, match="do not end where"):
            decoder.images(events.WRITE_V1, bytes(8) + wrong + bytes(20), 0, 8 + len(wrong))


def test_a_damaged_event_is_told_by_its_checksum() -> None:
    body = bytes(range(60))
    event = body + zlib.crc32(body).to_bytes(4, "little")
    assert events.has_checksum(event, 0, len(event))
    for place in range(len(event)):
        broken = event[:place] + bytes([event[place] ^ 1]) + event[place + 1 :]
        assert not events.has_checksum(broken, 0, len(broken))


def _packed(number: Decimal, precision: int, scale: int) -> bytes:
    """The server's own form of a decimal, written again from its description."""
    sign, digits, _ = number.as_tuple()
    text = "".join(map(str, digits)).zfill(precision)
    whole, fraction = text[: precision - scale], text[precision - scale :]
    first = len(whole) % 9
    groups = [whole[:first]] if first else []
    groups += [whole[at : at + 9] for at in range(first, len(whole), 9)]
    groups += [fraction[at : at + 9] for at in range(0, len(fraction), 9)]
    sizes = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
    raw = b"".join(int(group).to_bytes(sizes[len(group)], "big") for group in groups)
    if sign:
        raw = bytes(byte ^ 0xFF for byte in raw)
    return bytes([raw[0] ^ 0x80]) + raw[1:]


@given(st.data())
def test_decimals_of_every_shape_come_back_digit_by_digit(data: st.DataObject) -> None:
    precision = data.draw(st.integers(1, 65))
    scale = data.draw(st.integers(0, min(precision, 38)))
    number = Decimal(data.draw(st.integers(-(10**precision) + 1, 10**precision - 1)))
    raw = _packed(number, precision, scale)
    assert len(raw) == numbers.decimal_bytes(precision, scale)
    text = numbers.decimals(precision, scale)(raw)
    assert int(text.replace(".", "")) == number and len(text.partition(".")[2]) == scale


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_float_is_shown_so_that_it_comes_back(number: float) -> None:
    shown = numbers.shortest_float(number)
    assert struct.pack("<f", float(shown)) == struct.pack("<f", number)


@pytest.mark.parametrize(
    ("statement", "kind", "tables"),
    [
        ("CREATE TABLE t (a int)", "CREATE", [("db", "t")]),
        ("create or replace table if not exists `o``d` (a int)", "CREATE", [("db", "o`d")]),
        ("/* why */ ALTER  TABLE x.y ADD z int", "ALTER", [("x", "y")]),
        ("ALTER TABLE t RENAME TO u", "ALTER", [("db", "t"), ("db", "u")]),
        ("ALTER TABLE t RENAME COLUMN a TO b", "ALTER", [("db", "t")]),
        ("ALTER TABLE`t`ADD z int", "ALTER", [("db", "t")]),
        ("TRUNCATE t", "TRUNCATE", [("db", "t")]),
        ("truncate table `x`.`y`", "TRUNCATE", [("x", "y")]),
        ("DROP TABLE IF EXISTS `a`,`x`.`b` /* generated */", "DROP", [("db", "a"), ("x", "b")]),
        ("RENAME TABLE a TO b, c TO d", "RENAME", [("db", n) for n in "abcd"]),
        ("DROP DATABASE IF EXISTS x", "DROP DATABASE", [("x", "")]),
        ("/*!40000 ALTER TABLE t DISABLE KEYS */", "ALTER", [("db", "t")]),
        (
            "ALTER TABLE t COMMENT 'a # b -- c /* d', RENAME TO u",
            "ALTER",
            [("db", "t"), ("db", "u")],
        ),
        ("ALTER TABLE t RENAME TO`u`", "ALTER", [("db", "t"), ("db", "u")]),
        ("ALTER TABLE t RENAME`u`", "ALTER", [("db", "t"), ("db", "u")]),
        ('ALTER TABLE t COMMENT "one to RENAME later"', "ALTER", [("db", "t")]),
        ("ALTER TABLE t RENAME\n  COLUMN a TO b", "ALTER", [("db", "t")]),
        ("ALTER TABLE t ADD `a RENAME b` int", "ALTER", [("db", "t")]),
        ("TRUNCATE `a#b`", "TRUNCATE", [("db", "a#b")]),
        ("--\nTRUNCATE `a/*b`", "TRUNCATE", [("db", "a/*b")]),
        (
            "SET STATEMENT lock_wait_timeout=5, sql_mode=' FOR ' FOR TRUNCATE t",
            "TRUNCATE",
            [("db", "t")],
        ),
    ],
)
def test_statements_say_which_tables_they_change(
    statement: str, kind: str, tables: list[tuple[str, str]]
) -> None:
    change = ddl.classify(statement, "db")
    assert change is not None
    assert (change.kind, list(change.tables)) == (kind, tables)


@pytest.mark.parametrize(
    "statement",
    [
        *(
            "CREATE USER u",
            "CREATE INDEX i ON t (a)",
            "CREATE VIEW v AS SELECT 1",
            "ANALYZE TABLE t",
        ),
        *("DROP TEMPORARY TABLE t", "CREATE TEMPORARY TABLE t (a int)", "GRANT ALL ON t TO u", ""),
    ],
)
def test_other_statements_change_no_table(statement: str) -> None:
    assert ddl.classify(statement, "db") is None


@pytest.mark.parametrize(
    ("statement", "is_emptied", "is_read"),
    [
        ("ALTER IGNORE TABLE t ADD UNIQUE (a)", False, True),
        ("ALTER TABLE t DISCARD TABLESPACE", True, False),
        ("ALTER TABLE t IMPORT TABLESPACE", False, True),
        ("ALTER TABLE t IMPORT PARTITION p, `q` TABLESPACE", False, True),
        ("ALTER TABLE t COMMENT 'DROP PARTITION; IMPORT TABLESPACE'", False, False),
        ("ALTER TABLE t TABLESPACE innodb_system", False, False),
    ],
)
def test_a_statement_that_moves_rows_is_known_by_it(
    statement: str, is_emptied: bool, is_read: bool
) -> None:
    change = ddl.classify(statement, "db")
    assert change is not None
    assert (bool(change.emptied), bool(change.arrived)) == (is_emptied, is_read)


def test_a_statement_under_settings_of_its_own_is_a_change_of_rows() -> None:
    assert ddl.changes_data("SET STATEMENT binlog_format='STATEMENT' FOR UPDATE t SET a = 1")
    assert not ddl.changes_data("SET STATEMENT max_statement_time=1 FOR ALTER TABLE t ADD a int")


@given(st.text(max_size=80))
def test_any_text_is_a_statement(statement: str) -> None:
    ddl.classify(statement, "db")
    ddl.changes_data(statement)


def test_positions_are_lists_of_gtids() -> None:
    position = GtidPosition.parse("0-1-5, 1-2-7")
    assert str(position) == "0-1-5,1-2-7"
    assert position.has(Gtid(0, 9, 5)) and not position.has(Gtid(0, 1, 6))
    assert str(GtidPosition.parse("")) == ""
    with pytest.raises(CaptureError):
        GtidPosition.parse("0-1")
