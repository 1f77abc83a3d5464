"""Capture on a real MySQL: what no stand-in could have known."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator

import pytest

from headwater.capture.errors import BinlogUnreadable, CaptureError, Gap
from tests.capture.mysql.captured import Setting
from tests.capture.mysql.mysql_server import MySQL

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def mysql() -> Iterator[MySQL]:
    running = MySQL()
    yield running
    running.close()


@pytest.fixture
def shop(mysql: MySQL) -> Iterator[Setting]:
    """A database of its own."""
    made = Setting(mysql, f"shop{next(_numbers)}")
    yield made
    made.close()


@pytest.mark.parametrize("metadata", ["FULL", "MINIMAL"])
def test_a_year_takes_a_sign_bit_like_other_numbers(shop: Setting, metadata: str) -> None:
    shop.server.execute(f"SET GLOBAL binlog_row_metadata = {metadata}")
    try:
        shop.execute(
            "CREATE TABLE y (id INT PRIMARY KEY, y YEAR, a INT, b INT UNSIGNED, z YEAR, c TINYINT)",
            "INSERT INTO y VALUES (1, 2024, -1, 4294967295, 1901, -128)",
        )
        shop.snapshot()
        shop.execute("INSERT INTO y VALUES (2, 2024, -1, 4294967295, 1901, -128)")
        shop.stream()
    finally:
        shop.server.execute("SET GLOBAL binlog_row_metadata = FULL")
    read, streamed = [after for _, _, after in shop.changes("y")]
    assert {**read, "id": 2} == streamed
    assert streamed == {"id": 2, "y": 2024, "a": -1, "b": 4294967295, "z": 1901, "c": -128}


EVERY_TYPE = {
    "TINYINT": ("-128", "127"),
    "SMALLINT": ("-32768", "32767"),
    "MEDIUMINT": ("-8388608", "8388607"),
    "BIGINT": ("-9223372036854775808", "9223372036854775807"),
    "BIGINT UNSIGNED": ("0", "18446744073709551615"),
    "DECIMAL(65,30)": ("-99999999999999999999999999999999999.9", "1e-30"),
    "FLOAT": ("-3.402823e38", "1.17549e-38"),
    "DOUBLE": ("-1.7976931348623157e308", "2.2250738585072014e-308"),
    "BOOLEAN": ("false", "true"),
    "YEAR": ("1901", "2155"),
    "BIT(64)": ("b'0'", "b'1'"),
    "DATE": ("'1000-01-01'", "'9999-12-31'"),
    "DATETIME(6)": ("'1000-01-01'", "'9999-12-31 23:59:59.499999'"),
    "TIMESTAMP(6)": ("'1970-01-01 00:00:01'", "'2038-01-19 03:14:07.499999'"),
    "TIME(6)": ("'-838:59:59'", "'838:59:59'"),
    "CHAR(255)": ("''", "REPEAT('ü', 255)"),
    "VARCHAR(3000)": ("''", "REPEAT('🙂', 3000)"),
    "BINARY(16)": ("x'00'", "REPEAT(x'ff', 16)"),
    "VARBINARY(300)": ("x''", "REPEAT(x'00', 300)"),
    "TINYTEXT": ("''", "REPEAT('a', 255)"),
    "LONGTEXT CHARACTER SET latin1": ("''", "REPEAT('é', 70000)"),
    "MEDIUMBLOB": ("x''", "REPEAT(x'ff', 70000)"),
    "ENUM('a','b''c','ü')": ("'a'", "'ü'"),
    "SET('a','b','c','d','e','f','g','h','i')": ("''", "'a,i'"),
    "JSON": ("'null'", """'{"a": [1, -2.5, 1e-5, 1e20, true, "ü"], "b": {}}'"""),
    "POINT": ("POINT(0, 0)", "POINT(-1.5, 1e10)"),
    "VECTOR(3)": ("STRING_TO_VECTOR('[0,0,0]')", "STRING_TO_VECTOR('[1.5,-2e-10,3.4e38]')"),
    "GEOMETRYCOLLECTION": ("ST_GeomFromText('GEOMETRYCOLLECTION()')", "NULL"),
}


def test_every_type_is_streamed_as_the_snapshot_reads_it(shop: Setting) -> None:
    """Between two numbers each: what a type adds to the map of a table must not move the others' signs."""
    columns = [f"c{n} {kind}, n{n} INT, u{n} INT UNSIGNED" for n, kind in enumerate(EVERY_TYPE)]
    made = f"id INT PRIMARY KEY, {', '.join(columns)}, g INT AS (id + 1) STORED, "
    shop.execute(f"CREATE TABLE t ({made} v INT AS (id + 2) VIRTUAL)")
    names = ", ".join(f"c{n}, n{n}, u{n}" for n, _ in enumerate(EVERY_TYPE))
    low = ", ".join(f"{pair[0]}, -1, 4294967295" for pair in EVERY_TYPE.values())
    high = ", ".join(f"{pair[1]}, -2147483648, 0" for pair in EVERY_TYPE.values())
    nulls = ", ".join("NULL, NULL, NULL" for _ in EVERY_TYPE)
    shop.snapshot()
    for number, given in enumerate((low, high, nulls)):
        shop.execute(f"INSERT INTO t (id, {names}) VALUES ({number}, {given})")
    shop.stream()
    streamed = shop.fold("t")
    assert len(streamed) == 3
    for key, row in shop.as_snapshot("t").items():
        assert streamed[key] == row, [name for name in row if streamed[key].get(name) != row[name]]
    signed = [name for name in names.split(", ") if name[0] in "nu"]
    selected = shop.execute(f"SELECT id, {', '.join(signed)} FROM t ORDER BY id")
    shown = [tuple(row[name] for name in ("id", *signed)) for row in streamed.values()]
    assert shown == selected


def test_doubles_in_json_are_written_as_the_server_writes_them(shop: Setting) -> None:
    plain = [f"{sign}{head}e{power}" for sign in ("", "-") for head in ("1", "1.5", "9.87654321")
             for power in range(-25, 26)]  # fmt: skip
    odd = ["0.0", "-0.0", "5e-324", "1.7976931348623157e308", "123456789012345.6", "0.1", "1e2"]
    written = f"'[{', '.join(plain + odd)}]'"
    shop.execute("CREATE TABLE j (id INT PRIMARY KEY, j JSON)")
    shop.snapshot()
    shop.execute(f"INSERT INTO j VALUES (1, {written})")
    shop.stream()
    streamed, read = shop.fold("j"), shop.as_snapshot("j")
    (one,), (other,) = streamed.values(), read.values()
    differing = zip(one["j"].split(","), other["j"].split(","), strict=True)
    assert [pair for pair in differing if pair[0] != pair[1]] == []


def rows(count: int) -> list[str]:
    return [f"INSERT INTO t VALUES ({number})" for number in range(count)]


def test_a_server_that_was_reset_and_has_come_as_far_again_is_a_gap(shop: Setting) -> None:
    """The same names for other transactions, in a file of the same name, at the same places."""
    shop.server.execute("RESET BINARY LOGS AND GTIDS")
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.snapshot()
    shop.execute(*rows(40))
    shop.stream()
    shop.stream()  # nothing has happened: it goes on
    assert shop.position is not None
    while shop.execute("SELECT UNIX_TIMESTAMP()")[0][0] <= shop.position["made"]:
        time.sleep(0.05)  # files of one second cannot be told apart
    shop.server.execute("RESET BINARY LOGS AND GTIDS")
    shop.execute("DROP TABLE t", "CREATE TABLE t (id INT PRIMARY KEY)", *rows(60))
    with pytest.raises(Gap, match="not the one that was read before"):
        shop.stream()


def test_rotated_and_purged_files_are_no_reset(shop: Setting) -> None:
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.snapshot()
    for number in range(3):
        shop.execute(f"INSERT INTO t VALUES ({number})", "FLUSH BINARY LOGS")
        shop.stream()
    last = str(shop.server.execute("SHOW BINARY LOGS")[-1][0])
    shop.execute(f"PURGE BINARY LOGS TO '{last}'", "INSERT INTO t VALUES (3)")
    shop.stream()
    assert len(shop.fold("t")) == 4


def test_what_check_asks_for_is_all_that_a_run_needs(shop: Setting) -> None:
    """A user gets each privilege that `check` names, and no other; then the capture runs."""
    user = f"u{shop.name}"
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    shop.server.execute(f"CREATE USER '{user}'@'127.0.0.1' IDENTIFIED BY ''")
    shop.server.execute(f"GRANT SELECT ON {shop.name}.* TO '{user}'@'127.0.0.1'")
    failed = [finding for finding in shop.findings(user=user).values() if not finding.ok]
    assert sorted(finding.name for finding in failed) == [
        "privilege RELOAD",
        "privilege REPLICATION CLIENT",
        "privilege REPLICATION SLAVE",
        "privilege XA_RECOVER_ADMIN",
    ]
    for finding in failed:
        assert finding.remedy is not None
        shop.server.execute(finding.remedy)
    assert all(finding.ok for finding in shop.findings(user=user).values())
    config = shop.config(user=user)
    shop.snapshot(config)
    shop.execute("INSERT INTO t VALUES (2)")
    shop.stream(config)
    assert len(shop.fold("t")) == 2


def test_gtids_with_tags_are_refused_with_what_to_do_and_not_with_a_privilege() -> None:
    server = MySQL()
    shop = Setting(server, "shop")
    try:
        shop.execute("CREATE TABLE t (id INT PRIMARY KEY)")
        shop.snapshot()
        shop.execute("SET gtid_next = 'AUTOMATIC:blue'", "INSERT INTO t VALUES (1)")
        with pytest.raises(CaptureError, match="no GTID set") as refused:
            shop.stream()
        assert refused.value.hint is not None and "gtid_next" in refused.value.hint
        (found,) = [one for one in shop.findings().values() if not one.ok]
        assert found.remedy is not None and "gtid_next" in found.remedy
    finally:
        shop.close()
        server.close()


def test_a_change_that_a_replica_has_yet_to_confirm_is_not_undone(shop: Setting) -> None:
    """It is in the binary log, and no SELECT shows it."""
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 0)")
    shop.snapshot()
    source = shop.source()
    assert shop.position is not None
    stream = source.stream(shop.position)
    shop.take_all([next(stream)])
    incremental = source._incremental
    assert incremental is not None
    shop.execute(
        "INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'",
        "SET GLOBAL rpl_semi_sync_source_timeout = 100000, GLOBAL rpl_semi_sync_source_enabled = ON",
    )
    change = threading.Thread(target=shop.execute, args=("UPDATE t SET v = 1",))
    try:
        change.start()
        while shop.changes("t")[-1][0] != "u":
            shop.take_all([next(stream)])
        assert shop.execute("SELECT v FROM t") == [(0,)]
        incremental.want(["t"])
        shop.take_all(next(stream) for _ in range(20))
    finally:
        shop.execute("SET GLOBAL rpl_semi_sync_source_enabled = OFF")
    change.join()
    while incremental.active:
        shop.take_all([next(stream)])
    assert shop.changes("t")[-1] == ("r", None, {"id": 1, "v": 1})


def test_cascades_that_the_server_logs_are_captured_and_not_complained_of(shop: Setting) -> None:
    shop.execute(
        "CREATE TABLE p (id INT PRIMARY KEY)",
        "CREATE TABLE c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE)",
        "INSERT INTO p VALUES (1), (2)",
        "INSERT INTO c VALUES (10, 1), (20, 2)",
    )
    assert [one for one in shop.findings().values() if not one.ok] == []
    shop.snapshot()
    shop.execute("DELETE FROM p WHERE id = 1")
    shop.stream()
    assert list(shop.fold("c").values()) == [{"id": 20, "p": 2}]


def test_parts_of_json_documents_end_the_capture_of_their_own_table_only(shop: Setting) -> None:
    partial = "SET SESSION binlog_row_value_options = PARTIAL_JSON"
    shop.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, j JSON)",
        "CREATE TABLE other (id INT PRIMARY KEY, j JSON)",
        *(
            f"""INSERT INTO {name} VALUES (1, '{{"a": "{"x" * 500}", "b": 1}}')"""
            for name in ("t", "other")
        ),
    )
    config = shop.config(options={"without_tables": ["other"]})
    shop.snapshot(config)
    change = "SET j = JSON_SET(j, '$.b', 2) WHERE id = 1"
    shop.execute(partial, f"UPDATE other {change}", "INSERT INTO t VALUES (2, NULL)")
    shop.stream(config)
    assert len(shop.fold("t")) == 2 and not shop.fold("other")
    shop.execute(partial, f"UPDATE t {change}")
    with pytest.raises(BinlogUnreadable, match="only parts of a JSON document"):
        shop.stream(config)
