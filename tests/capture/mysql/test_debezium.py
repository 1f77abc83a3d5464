"""Debezium beside headwater on one MariaDB: the same envelopes, field by field, but for stated differences.

The differences are those of docs/capture-mysql.md. Debezium's jars come from Maven; where that is not to
be had the test says so.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.capture import debezium
from headwater import testing
from headwater.broker.broker import Broker
from headwater.capture.runner import Runner
from headwater.testing.kafka_jars import MissingServer
from tests.capture.core.reading import Read, read
from tests.capture.mysql.captured import Setting

COLUMNS = (
    "name VARCHAR(50) NOT NULL, total DECIMAL(10,2), ts DATETIME(6), short DATETIME, d DATE, tm TIME(3), "
    "z TIMESTAMP NULL, b VARBINARY(9), j JSON, e ENUM('ok','bad'), s SET('x','y'), big TEXT, flag BIT(1), "
    "bits BIT(9), f DOUBLE, small SMALLINT, big_u INT UNSIGNED, y YEAR"
)
VALUES = (
    "'ä \"q\"', 1.50, '2026-01-01 00:00:00.000001', '2026-01-01 01:02:03', '2026-01-01', '-01:02:03.5', "
    "'2026-01-01 00:00:00', x'00ff', '{\"a\": 1}', 'ok', 'x,y', REPEAT('x', 9000), 1, b'100000001', 0.5, "
    "-1, 4000000000, 2026"
)
MOMENTS = {"ts_ms", "ts_us", "ts_ns"}
# Who said it, and when; Debezium leaves out of the position where in a batch of rows it stands.
SOURCE_MAY_DIFFER = {"version", "name", "thread", "query", "pos", "row"}
SNAPSHOT_MAY_DIFFER = {"snapshot", "gtid", "file", "pos", "server_id"} | MOMENTS
DEADLINE_S = 90.0


@pytest.fixture(scope="module")
def log() -> Iterator[Broker]:
    with testing.broker(settings={"num.partitions": "1"}) as running:
        yield running


def eventually(what: str, condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + DEADLINE_S
    while not (value := condition()):
        assert time.monotonic() < deadline, f"within {DEADLINE_S:.0f} s: {what}"
        time.sleep(0.05)
    return value


def start(setting: Setting, bootstrap: str, folder: Path) -> Any:
    properties = debezium.mariadb_properties(
        f"dbz_{setting.name}",
        setting.server.port,
        setting.name,
        f"{setting.name}.t",
        folder,
        poll_interval_ms="5",
        provide_transaction_metadata="true",
        skipped_operations="none",
    )
    try:
        return debezium.start(properties, bootstrap, folder / "debezium.log")
    except MissingServer as error:
        if os.environ.get("HEADWATER_REQUIRE_SERVERS") == "1":
            pytest.fail(str(error))
        pytest.skip(str(error))


@pytest.mark.soak  # every field of MariaDB's is compared in capture/contract as well
@pytest.mark.timeout(900)  # a Java process starts, perhaps on a busy machine
def test_envelopes_are_debeziums_but_for_stated_differences(
    setting: Setting, log: Broker, tmp_path: Path
) -> None:
    setting.execute(
        f"CREATE TABLE t (id INT PRIMARY KEY, {COLUMNS})", f"INSERT INTO t VALUES (1, {VALUES})"
    )
    dumping = "SELECT ID FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog%'"
    others = set(
        setting.execute(dumping)
    )  # of readers that have gone, which the server has yet to see
    process = start(setting, log.bootstrap, tmp_path)
    runner = Runner(setting.config("t", bootstrap=log.bootstrap, transactions=True))
    thread = threading.Thread(target=runner.run)
    try:
        # Before ours begins, which looks into the log's files by a connection of the same kind.
        eventually("Debezium streams", lambda: set(setting.execute(dumping)) - others)
        thread.start()
        eventually("it streams", lambda: runner.status.phase == "streaming")
        setting.execute(
            f"INSERT INTO t VALUES (2, {VALUES})",
            "UPDATE t SET name = 'b', total = NULL WHERE id = 2",
            "UPDATE t SET id = 3, big = 'y' WHERE id = 2",
            "BEGIN",
            f"INSERT INTO t VALUES (5, {VALUES})",
            f"INSERT INTO t VALUES (6, {VALUES})",
            "COMMIT",
            "DELETE FROM t WHERE id = 3",
            "TRUNCATE t",
        )
        ours = eventually("ours are there", lambda: _all(log, f"{setting.name}.t"))
        theirs = eventually(
            "Debezium's are there", lambda: _all(log, f"dbz_{setting.name}.{setting.name}.t")
        )
    finally:
        runner.stop()
        if thread.is_alive():
            thread.join(60)
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    assert len(ours) == len(theirs)
    compare(ours, theirs)


def _all(log: Broker, topic: str) -> list[Read]:
    """Everything up to the truncate; nothing while that has not come."""
    found = read(log.bootstrap, topic)
    return found if any(r.value and r.value["op"] == "t" for r in found) else []


def compare(ours: list[Read], theirs: list[Read]) -> None:
    for mine, other in zip(_by_key(ours), _by_key(theirs), strict=True):
        assert mine.key == other.key
        if mine.value is None:
            assert other.value is None
            continue
        a, b = dict(mine.value), dict(other.value)
        assert set(a) == set(b) and a["op"] == b["op"]
        for image in ("before", "after"):
            assert a[image] == b[image], (a["op"], image)
        may = SOURCE_MAY_DIFFER | (SNAPSHOT_MAY_DIFFER if a["op"] == "r" else set())
        assert set(a["source"]) == set(b["source"])
        for name in set(a["source"]) - may:
            assert a["source"][name] == b["source"][name], (a["op"], name)
        assert a["transaction"] == b["transaction"], a["op"]


def _by_key(records: list[Read]) -> list[Read]:
    """A truncate may be in other partitions; the order within a key is what counts."""
    return sorted(records, key=lambda record: str(record.key))
