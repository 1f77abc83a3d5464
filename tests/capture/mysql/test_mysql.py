"""MySQL without a MySQL server: bytes put together by its documentation, and a stand-in that sends them."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.capture.config import CaptureConfig
from headwater.capture.errors import BinlogUnreadable, CaptureError, Gap
from headwater.capture.mysql import events, json_binary, preflight
from headwater.capture.mysql import table_map as wire
from headwater.capture.mysql.flavor import dump_request
from headwater.capture.mysql.gtid import GtidSet, SetGtid
from headwater.capture.mysql.source import MariaDBSource
from tests.capture.mysql import stand_in
from tests.capture.mysql.stand_in import ORIGIN, MySQLStandIn

OTHER = "4350f323-7565-11e5-a27f-0021cc6850ca"


# ── positions ─────────────────────────────────────────────────────────────────────────────────────


def test_a_gtid_set_is_read_written_grown_and_compared() -> None:
    found = GtidSet.parse(f"{ORIGIN.upper()}:1-3:11:5-6,\n{OTHER}:7")
    assert str(found) == f"{ORIGIN}:1-3:5-6:11,{OTHER}:7"
    found.add(SetGtid(ORIGIN, 4))
    found.add(SetGtid(OTHER, 8))
    assert str(found) == f"{ORIGIN}:1-6:11,{OTHER}:7-8"
    assert found.has(SetGtid(ORIGIN, 6)) and not found.has(SetGtid(ORIGIN, 7))
    assert found.covers(GtidSet.parse(f"{ORIGIN}:2-5")) and found.covers(GtidSet())
    assert not found.covers(GtidSet.parse(f"{ORIGIN}:5-11"))
    assert str(GtidSet.parse("")) == ""
    with pytest.raises(CaptureError, match="no GTID set"):
        GtidSet.parse(f"{ORIGIN}:tag:1-5")


def test_the_request_for_the_log_names_what_is_known_with_ends_one_behind() -> None:
    known = struct.pack("<Q", 1) + bytes.fromhex(ORIGIN.replace("-", ""))
    known += struct.pack("<QQQ", 1, 1, 6)
    request = struct.pack("<HII", 4, 77, 0) + struct.pack("<QI", 4, len(known)) + known
    assert dump_request(77, GtidSet.parse(f"{ORIGIN}:1-5")) == request


# ── JSON ──────────────────────────────────────────────────────────────────────────────────────────


def tree(kind: int, items: list[tuple[int, bytes]], keys: tuple[bytes, ...] = ()) -> bytes:
    """A small array or object: values of up to 16 bits stand in their entry."""
    inline = {4, 5, 6}
    head = 4 + 4 * len(keys) + 3 * len(items)
    entries, names, data = b"", b"", b""
    for key in keys:
        entries += struct.pack("<HH", head + len(names), len(key))
        names += key
    for inner, value in items:
        at = struct.pack("<H", head + len(names) + len(data))
        entries += bytes([inner]) + (value.ljust(2, b"\0") if inner in inline else at)
        data += b"" if inner in inline else value
    body = entries + names + data
    return struct.pack("<HH", len(items), 4 + len(body)) + body


def datetime_packed(year: int, month: int, day: int, clock: tuple[int, int, int], us: int) -> bytes:
    whole = ((year * 13 + month) << 5 | day) << 17 | clock[0] << 12 | clock[1] << 6 | clock[2]
    return struct.pack("<q", whole << 24 | us)


DOCUMENT = tree(
    0,
    [
        (4, b"\x01"),
        (5, struct.pack("<h", -7)),
        (9, struct.pack("<q", -(2**40))),
        (11, struct.pack("<d", 1e20)),
        (12, b"\x04" + 'ä"'.encode() + b"\n"),
        (2, tree(2, [(4, b"\0"), (4, b"\x02"), (10, struct.pack("<Q", 2**64 - 1))])),
        (15, bytes([wire.NEWDECIMAL, 4, 3, 1]) + b"\x8c\x05"),
        (15, bytes([wire.DATETIME, 8]) + datetime_packed(2015, 1, 15, (23, 24, 25), 12)),
        (15, bytes([wire.BLOB, 2]) + b"\0\xff"),
    ],
    (b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h", b"i"),
)
AS_TEXT = (
    '{"a":true,"b":-7,"c":-1099511627776,"d":1e20,"e":"ä\\"\\n","f":[null,false,18446744073709551615],'
    '"g":12.5,"h":"2015-01-15 23:24:25.000012","i":"base64:type252:AP8="}'
)


def test_a_json_document_is_read_from_its_binary_form() -> None:
    assert json_binary.text(b"\0" + DOCUMENT) == AS_TEXT
    assert json.loads(AS_TEXT)["f"][2] == 2**64 - 1
    large = struct.pack("<II", 1, 13) + b"\x07" + struct.pack("<i", -70000)
    assert json_binary.text(b"\x03" + large) == "[-70000]"
    minus = struct.pack("<q", -((1 << 12 | 2 << 6 | 3) << 24))
    assert json_binary.text(bytes([15, wire.TIME, 8]) + minus) == '"-01:02:03.000000"'


def test_a_json_document_cut_short_is_an_error() -> None:
    for length in range(1, len(DOCUMENT) + 1):
        with pytest.raises(BinlogUnreadable):
            json_binary.text((b"\0" + DOCUMENT)[:length])


@given(st.binary(min_size=1, max_size=60))
def test_any_bytes_are_a_json_document_or_an_error(data: bytes) -> None:
    try:
        json_binary.text(data)
    except BinlogUnreadable:
        pass


# ── a conversation ────────────────────────────────────────────────────────────────────────────────

# shop.orders: id INT UNSIGNED NOT NULL, doc JSON, y YEAR, n INT UNSIGNED; key id. YEAR has a sign bit.
SHORT_MAP = (
    b"\x04shop\0\x06orders\0\x04"
    + bytes([wire.LONG, wire.JSON, wire.YEAR, wire.LONG])
    + b"\x01\x04"
    + b"\x0e"
    + b"\x01\x01\xe0"
)
FULL_MAP = SHORT_MAP + b"\x04\x0b\x02id\x03doc\x01y\x01n" + b"\x08\x01\x00" + b"\x0c\x01\xf0"


def image(number: int, document: bytes | None) -> bytes:
    nulls = 0 if document is not None else 2
    shown = b"" if document is None else struct.pack("<I", len(document)) + document
    return (
        bytes([nulls]) + struct.pack("<I", number) + shown + b"\x7e" + struct.pack("<I", 2**32 - 1)
    )


def inserted(number: int, described: bytes = FULL_MAP) -> list[bytes]:
    written = stand_in.rows(events.WRITE_V2, 4, image(number, b"\x04\x01"))
    return [
        stand_in.gtid(number),
        stand_in.query("BEGIN"),
        stand_in.table_map(described),
        written,
        stand_in.xid(),
    ]


def answers(metadata: str = "FULL", executed: str = f"{ORIGIN}:1-5", purged: str = "") -> Any:
    settings = {
        "log_bin": "ON",
        "binlog_format": "ROW",
        "binlog_row_image": "FULL",
        "binlog_row_metadata": metadata,
        "server_id": "5",
        "binlog_expire_logs_seconds": "2592000",
        "gtid_mode": "ON",
        "binlog_row_value_options": "",
    }
    column = ("orders",), (None, None, 10, 0, None, None, "", "")
    return [
        ("SELECT VERSION", [("8.0.36",)]),
        ("SHOW GLOBAL VARIABLES", list(settings.items())),
        ("SELECT @@server_id", [("5",)]),
        ("gtid_executed", [(executed,)]),
        ("gtid_purged", [(purged,)]),
        ("SHOW MASTER STATUS", [("binlog.000001", 157, "", "", f"{ORIGIN}:1-5")]),
        ("SHOW BINARY LOGS", [("binlog.000001", 1 << 20, "No")]),
        ("information_schema.TABLES", [("orders", "InnoDB", 2, 60, 0)]),
        (
            "information_schema.COLUMNS",
            [
                (*column[0], "id", "int", "int unsigned", "NO", *column[1], 1),
                (*column[0], "doc", "json", "json", "YES", *column[1], None),
                (*column[0], "y", "year", "year", "YES", *column[1], None),
                (*column[0], "n", "int", "int unsigned", "YES", *column[1], None),
            ],
        ),
        ("information_schema.COLL", [("255", "utf8mb4")]),
        ("OFFSET", []),
        ("SELECT `id`", [(1, '{"a": 1, "b: c": [true, null]}', 2026, 4294967295, 1)]),
    ]


@pytest.fixture
def servers() -> Iterator[list[MySQLStandIn]]:
    made: list[MySQLStandIn] = []
    yield made
    for one in made:
        one.close()


def captured(
    server: MySQLStandIn, until: str, position: dict[str, Any] | None = None
) -> tuple[list[Any], dict[str, Any]]:
    """What comes of a snapshot (unless there is a position), then of the stream, up to that set."""
    config = CaptureConfig(
        "shop", f"mysql://u@127.0.0.1:{server.port}/shop", ("orders",), bootstrap="127.0.0.1:1"
    )
    source = MariaDBSource(config)
    records: list[Any] = []
    try:
        if position is None:
            for batch in source.snapshot(None):
                records += batch.records
                position = batch.position
        assert position is not None
        for batch in source.stream(position):
            records += batch.records
            position = batch.position
            if position["gtid"] == until:
                break
    finally:
        source.close()
    return [
        (topic, json.loads(value) if value else None) for topic, _, value, *_ in records
    ], position


def of(records: list[Any], topic: str) -> list[Any]:
    return [value for name, value in records if name == topic and value]


@pytest.mark.parametrize("metadata", ["FULL", "MINIMAL"])
def test_snapshot_and_stream_of_a_server_that_speaks_as_mysql_does(
    servers: list[MySQLStandIn], metadata: str
) -> None:
    described = FULL_MAP if metadata == "FULL" else SHORT_MAP
    inner = (
        stand_in.query("BEGIN", checksum=False)
        + stand_in.table_map(described, checksum=False)
        + stand_in.rows(events.UPDATE_V2, 4, image(6, b"\x04\x01") + image(6, None), checksum=False)
        + stand_in.xid(checksum=False)
    )
    squeezed = bytes(cramjam.zstd.compress(inner))
    gone = stand_in.rows(events.DELETE_V2, 4, image(6, None))
    log = [
        stand_in.rotate("binlog.000001"),
        stand_in.format_description(),
        stand_in.event(events.PREVIOUS_GTIDS, bytes(8)),
        *inserted(6, described),
        *(stand_in.gtid(7), stand_in.payload(inner, squeezed, 0)),
        *(stand_in.gtid(8), stand_in.query("CREATE TABLE shop.other (a INT)")),
        *(stand_in.gtid(9), stand_in.query("BEGIN"), stand_in.table_map(described), gone),
        stand_in.event(events.ROWS_QUERY, b"\x01x", flags=events.FLAG_IGNORABLE),
        stand_in.xid(),
        *(stand_in.gtid(10), stand_in.payload(inner, inner, 255)),
        stand_in.event(events.HEARTBEAT_V2, b""),
    ]
    servers.append(MySQLStandIn(answers(metadata), log))
    records, position = captured(servers[0], f"{ORIGIN}:1-10")
    rows = of(records, "shop.orders")
    full = {"y": 2026, "n": 2**32 - 1}
    assert [(row["op"], row["before"], row["after"]) for row in rows] == [
        ("r", None, {"id": 1, "doc": '{"a":1,"b: c":[true,null]}', **full}),
        ("c", None, {"id": 6, "doc": "true", **full}),
        ("u", {"id": 6, "doc": "true", **full}, {"id": 6, "doc": None, **full}),
        ("d", {"id": 6, "doc": None, **full}, None),
        ("u", {"id": 6, "doc": "true", **full}, {"id": 6, "doc": None, **full}),
    ]
    assert rows[0]["source"]["connector"] == "mysql"
    assert rows[1]["source"]["gtid"] == f"{ORIGIN}:6" and rows[1]["source"]["server_id"] == 5
    begins = [one["id"] for one in of(records, "shop.transaction") if one["status"] == "BEGIN"]
    assert begins == [f"{ORIGIN}:{number}" for number in (6, 7, 9, 10)]
    assert servers[0].dumps[0].endswith(struct.pack("<QQ", 1, 6)), "all but the first five"
    lock, *_, unlock = (q for q in servers[0].asked if q.startswith(("FLUSH", "START", "UNLOCK")))
    assert (lock, unlock) == ("FLUSH TABLES WITH READ LOCK", "UNLOCK TABLES")
    assert position["file"] == "binlog.000001"


def test_xa_transactions_come_when_they_are_committed_and_create_select_brings_its_rows(
    servers: list[MySQLStandIn],
) -> None:
    name = "X'61',X'',1"
    rows_of_6 = inserted(6)[2:4]
    log = [
        *(stand_in.rotate("binlog.000001"), stand_in.format_description()),
        *(stand_in.gtid(6), stand_in.query(f"XA START {name}"), *rows_of_6),
        stand_in.query(f"XA END {name}"),
        stand_in.event(events.XA_PREPARE, b"\0" + struct.pack("<III", 1, 1, 0) + b"a"),
        *inserted(7),
        *(stand_in.gtid(8), stand_in.query(f"XA COMMIT {name}")),
        stand_in.gtid(9),
        stand_in.query("CREATE TABLE `orders` (`id` int) START TRANSACTION"),
        *(*inserted(9)[2:4], stand_in.xid()),
    ]
    servers.append(MySQLStandIn(answers(), log))
    records, _ = captured(servers[0], f"{ORIGIN}:1-9")
    found = [row["after"]["id"] for row in of(records, "shop.orders") if row["op"] == "c"]
    assert found == [7, 6, 9]


@pytest.mark.parametrize(
    ("kind", "remedy"),
    [
        (events.ANONYMOUS_GTID, "gtid_mode"),
        (events.TAGGED_GTID, "gtid_next"),
        (99, "newer headwater"),
    ],
)
def test_what_is_not_read_ends_the_capture_with_a_remedy(
    servers: list[MySQLStandIn], kind: int, remedy: str
) -> None:
    log = [stand_in.rotate("b"), stand_in.format_description(), stand_in.event(kind, bytes(40))]
    servers.append(MySQLStandIn(answers(), log))
    with pytest.raises(BinlogUnreadable) as refused:
        captured(servers[0], "never")
    assert remedy in str(refused.value.hint)


def test_a_server_that_forgot_or_never_knew_what_was_read_is_a_gap(
    servers: list[MySQLStandIn],
) -> None:
    position = {"gtid": f"{ORIGIN}:1-5", "server": 5, "file": "b", "pos": 4, "schemas": {}}
    for changed in ({"executed": f"{ORIGIN}:1-4"}, {"purged": f"{ORIGIN}:1-6"}):
        servers.append(MySQLStandIn(answers(**changed), []))
        with pytest.raises(Gap) as gap:
            captured(servers[-1], "never", position)
        assert "--resnapshot" in str(gap.value.hint)


def test_a_payload_that_is_damaged_too_large_or_unknown_is_an_error() -> None:
    inner = stand_in.xid(checksum=False)
    for data in (
        stand_in.payload(inner, bytes(cramjam.zstd.compress(inner))[:-2], 0),
        stand_in.payload(inner, inner, 7),
        stand_in.payload(inner, inner[:-1], 255),
        stand_in.payload(bytes(300 << 20), inner, 0),
    ):
        with pytest.raises(BinlogUnreadable):
            list(events.payload(data, events.HEADER_BYTES, len(data) - 4))


def test_versions_are_told_apart_and_old_ones_refused() -> None:
    ok = {text: preflight.version_finding(text).ok for text in ("8.0.36", "9.1.0", "5.7.44")}
    ok |= {
        text: preflight.version_finding(text).ok for text in ("10.11.6-MariaDB", "10.4.1-MariaDB")
    }
    assert list(ok.values()) == [True, True, False, True, False]
