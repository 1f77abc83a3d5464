"""Debezium beside headwater on one server: the same envelopes, field by field, but for stated differences.

The differences are those of docs/capture.md. Debezium's jars come from Maven; where that is not to be
had the test says so.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from bench.capture import debezium
from headwater.testing.kafka_jars import MissingServer
from tests.capture.core.reading import Read, read
from tests.capture.postgres.running import Setting, eventually

COLUMNS = (
    "name text NOT NULL, total numeric(10,2), ts timestamp, d date, tm time, b bytea, j jsonb, u uuid, "
    "m mood, numbers int[], words text[], big text, flag boolean, f float8, small smallint, long bigint, "
    "span int4range, ip inet"
)
VALUES = (
    "'ä \"q\"', 1.50, '2026-01-01 00:00:00.000001', '2026-01-01', '01:02:03.5', '\\x00ff', '{\"a\": 1}', "
    "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'ok', '{1,NULL}', '{a,\"b c\"}', repeat('x', 9000), true, "
    "0.5, -1, 9007199254740993, '[1,5)', '10.0.0.1'"
)
# Which moment it was, and who said it.
MOMENTS = {"ts_ms", "ts_us", "ts_ns"}
SOURCE_MAY_DIFFER = {"version", "name", "sequence"}
SNAPSHOT_MAY_DIFFER = {"snapshot", "txId", "lsn"} | MOMENTS


def start(setting: Setting, folder: Path) -> Any:
    properties = debezium.postgres_properties(
        f"dbz_{setting.name}",
        setting.server.port,
        setting.name,
        "public.t,public.whole",
        folder,
        poll_interval_ms="5",
        provide_transaction_metadata="true",
        skipped_operations="none",
    )
    try:
        return debezium.start(properties, setting.bootstrap, folder / "debezium.log")
    except MissingServer as error:
        if os.environ.get("HEADWATER_REQUIRE_SERVERS") == "1":
            pytest.fail(str(error))
        pytest.skip(str(error))


@pytest.mark.timeout(900)  # a Java process starts, perhaps on a busy machine
def test_envelopes_are_debeziums_but_for_stated_differences(
    setting: Setting, tmp_path: Path
) -> None:
    setting.execute(
        "CREATE TYPE mood AS ENUM ('ok', 'bad')",
        f"CREATE TABLE t (id int PRIMARY KEY, {COLUMNS})",
        "ALTER TABLE t ALTER big SET STORAGE EXTERNAL",
        "CREATE TABLE whole (id int PRIMARY KEY, v text)",
        "ALTER TABLE whole REPLICA IDENTITY FULL",
        f"INSERT INTO t VALUES (1, {VALUES})",
        "INSERT INTO whole VALUES (1, 'x')",
    )
    process = start(setting, tmp_path)
    try:
        with setting.running(setting.config("t", "whole")) as runner:
            streaming = (
                "SELECT 1 FROM pg_stat_replication r JOIN pg_replication_slots s "
                f"ON s.active_pid = r.pid WHERE s.slot_name = 'dbz_{setting.name}' "
                "AND r.state = 'streaming'"
            )
            eventually("Debezium streams", lambda: setting.execute(streaming), 90)
            setting.execute(
                f"INSERT INTO t VALUES (2, {VALUES})",
                "UPDATE t SET name = 'b' WHERE id = 2",
                "UPDATE t SET id = 3, big = 'y' WHERE id = 2",
                "UPDATE whole SET v = NULL",
                "DELETE FROM whole",
                "BEGIN; INSERT INTO whole VALUES (5, 'a'); INSERT INTO whole VALUES (6, 'b'); COMMIT",
                "DELETE FROM t WHERE id = 3",
            )
            setting.caught_up(runner)
        for table in ("t", "whole"):
            ours = setting.read(table)
            theirs = eventually(
                "Debezium has as much",
                lambda: (found := _theirs(setting, table)) and len(found) >= len(ours) and found,  # noqa: B023
            )
            assert len(ours) == len(theirs)
            compare(ours, theirs)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def _theirs(setting: Setting, table: str) -> list[Read]:
    return read(setting.bootstrap, f"dbz_{setting.name}.public.{table}")


def compare(ours: list[Read], theirs: list[Read]) -> None:
    for mine, other in zip(_by_key(ours), _by_key(theirs), strict=True):
        assert mine.key == other.key
        if mine.value is None:
            assert other.value is None
            continue
        a, b = dict(mine.value), dict(other.value)
        assert set(a) == set(b) and a["op"] == b["op"]
        assert a["after"] == b["after"]
        if a["op"] == "d" and set(a["before"].values()) == {None, a["before"]["id"]}:
            # Outside the key Debezium invents values for columns that are NOT NULL.
            assert a["before"]["id"] == b["before"]["id"]
        else:
            assert a["before"] == b["before"]
        may = SOURCE_MAY_DIFFER | (SNAPSHOT_MAY_DIFFER if a["op"] == "r" else set())
        assert set(a["source"]) == set(b["source"])
        for name in set(a["source"]) - may:
            assert a["source"][name] == b["source"][name], name
        x, y = a["transaction"], b["transaction"]
        assert (x is None) == (y is None)
        if x is not None:
            # The id's second half is the commit's LSN here, the event's there.
            assert x["id"].partition(":")[0] == y["id"].partition(":")[0]
            assert {k: v for k, v in x.items() if k != "id"} == {
                k: v for k, v in y.items() if k != "id"
            }


def _by_key(records: list[Read]) -> list[Read]:
    """Partitions are read in any order; the order within a key is what counts."""
    return sorted(records, key=lambda record: str(record.key))
