"""Tables read again while the stream goes on, and what would happen without its care."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import pytest

from headwater import testing
from headwater.broker.broker import Broker
from headwater.capture.errors import CaptureError, Misconfigured, SourceRefused
from headwater.capture.mysql import chunks
from headwater.capture.runner import Runner
from headwater.capture.source import Range
from tests.capture.core.reading import fold, read
from tests.capture.mysql.captured import STILL_S, Setting
from tests.capture.mysql.server import MariaDB


@pytest.fixture(scope="module")
def log() -> Iterator[Broker]:
    with testing.broker(settings={"num.partitions": "3"}) as running:
        yield running


def _again(setting: Setting, *, careful: bool) -> None:
    """Read `t` again; between each chunk and its watermark rows of it change."""
    config = setting.config(options={"chunk_rows": 10})
    source = setting.source(config)
    assert setting.position is not None
    stream = source.stream(setting.position)
    setting._take(next(stream))
    incremental = source._incremental
    assert incremental is not None
    numbers = iter(range(3, 100, 10))

    def between() -> None:
        number = next(numbers, None)
        if number is None:
            return
        setting.execute(
            f"UPDATE t SET v = v + 1 WHERE id = {number}",
            f"DELETE FROM t WHERE id = {number + 1}",
            f"UPDATE t SET id = {1000 + number} WHERE id = {number + 2}",
        )

    incremental.between = between
    incremental.drops_changed = careful
    incremental.want(["t"])
    for _ in range(200):
        setting._take(next(stream))
        if not incremental.active:
            break
    assert not incremental.active
    setting.stream(config)


@pytest.mark.parametrize("careful", [True, False])
def test_rows_that_changed_meanwhile_are_dropped_and_must_be(
    setting: Setting, careful: bool
) -> None:
    setting.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
        "INSERT INTO t SELECT seq, 0 FROM seq_1_to_95",
    )
    setting.snapshot()
    _again(setting, careful=careful)
    read_again = [value for _, _, value in setting.records if value and value.get("op") == "r"]
    assert {value["source"]["snapshot"] for value in read_again} == {"true", "incremental"}
    assert len(read_again) > 150
    equal = setting.fold("t") == setting.as_snapshot("t")
    assert equal is careful, "without dropping them, old rows would come after their changes"


@contextlib.contextmanager
def _commits_wait(server: MariaDB) -> Iterator[None]:
    """What is committed meanwhile is in the binary log, and nobody sees it yet: no replica has it."""
    server.execute(
        "SET GLOBAL rpl_semi_sync_master_timeout = 100000",
        "SET GLOBAL rpl_semi_sync_master_wait_point = AFTER_SYNC",
        "SET GLOBAL rpl_semi_sync_master_enabled = ON",
    )
    try:
        yield
    finally:
        server.execute("SET GLOBAL rpl_semi_sync_master_enabled = OFF")


def test_a_change_that_came_before_anybody_could_see_it_is_not_undone(
    own_setting: Setting,
) -> None:
    setting = own_setting
    setting.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 0)")
    setting.snapshot()
    source = setting.source()
    assert setting.position is not None
    stream = source.stream(setting.position)
    setting._take(next(stream))
    change = threading.Thread(target=setting.execute, args=("UPDATE t SET v = 1",))
    with _commits_wait(setting.server):
        change.start()
        _until(lambda: setting._take(next(stream)) or setting.changes("t")[-1][0] == "u")
        assert setting.execute("SELECT v FROM t") == [(0,)]
        assert source._incremental is not None
        source._incremental.want(["t"])
        for _ in range(20):
            setting._take(next(stream))
    change.join()
    _until(lambda: setting._take(next(stream)) or not source._incremental.active)
    assert setting.fold("t") == setting.as_snapshot("t")
    assert setting.changes("t")[-1] == ("r", None, {"id": 1, "v": 1})


def test_columns_that_change_between_chunks_are_read_anew(setting: Setting) -> None:
    setting.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
        "INSERT INTO t SELECT seq, 0 FROM seq_1_to_50",
    )
    setting.snapshot()
    config = setting.config(options={"chunk_rows": 10})
    source = setting.source(config)
    assert setting.position is not None
    stream = source.stream(setting.position)
    setting._take(next(stream))
    assert source._incremental is not None
    statements = iter(["ALTER TABLE t ADD COLUMN w INT DEFAULT 5", "TRUNCATE TABLE t"])
    source._incremental.between = lambda: setting.execute(next(statements, "DO 1"))
    source._incremental.want(["t"])
    for _ in range(100):
        setting._take(next(stream))
        if not source._incremental.active:
            break
    setting.stream(config)
    assert setting.fold("t") == setting.as_snapshot("t") == {}


def test_large_rows_are_read_a_few_at_a_time(setting: Setting) -> None:
    setting.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, s LONGTEXT)",
        "INSERT INTO t SELECT seq, REPEAT('x', 200000) FROM seq_1_to_100",
        "ANALYZE TABLE t",
    )
    setting.snapshot()
    assert setting.position is not None
    setting.position["incremental"] = {"tables": ["t"], "after": None}
    source = setting.source()
    sizes = []
    for batch in source.stream(setting.position):
        sizes.append(sum(len(record[2] or b"") for record in batch.records))
        if "incremental" not in batch.position:
            break
    assert sum(sizes) > 20_000_000
    assert max(sizes) < 5_000_000


def test_a_request_goes_on_after_a_restart(setting: Setting) -> None:
    setting.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)",
        "INSERT INTO t SELECT seq, REPEAT('v', 2000) FROM seq_1_to_3000",
    )
    setting.snapshot()
    config = setting.config(options={"chunk_rows": 100})
    restarts = 0
    assert setting.position is not None
    setting.position["incremental"] = {"tables": ["t"], "after": None}
    while "incremental" in setting.position:
        source = setting.source(config)
        setting._take(next(source.stream(setting.position)))
        source.close()
        restarts += 1
    assert restarts > 3
    again = [
        v["after"]["id"]
        for _, _, v in setting.records
        if v and v["source"]["snapshot"] == "incremental"
    ]
    assert again == list(range(1, 3001))


def test_a_range_of_rows_is_read_again_and_one_that_no_longer_fits_is_given_up(
    setting: Setting,
) -> None:
    setting.execute(
        "CREATE TABLE t (id BIGINT, b VARCHAR(9), v INT, PRIMARY KEY (id, b))",
        "INSERT INTO t SELECT seq, '%', 0 FROM seq_1_to_40",
    )
    setting.snapshot()
    source = setting.source()
    table = source._known_tables().as_now("t")
    where = chunks.condition(table, Range("b LIKE '%' AND v = 0", "10", "35"))
    assert where == "(b LIKE '%' AND v = 0) AND `id` >= 10 AND `id` <= 35"
    assert setting.position is not None
    wanted = [{"table": "t", "where": "nonsense = 1"}, {"table": "t", "where": where}]
    setting.position["incremental"] = {"tables": wanted, "after": None}
    stream = source.stream(setting.position)
    while "incremental" in setting.position:
        setting._take(next(stream))
    again = [
        v["after"]["id"]
        for _, _, v in setting.records
        if v and v["source"]["snapshot"] == "incremental"
    ]
    assert again == list(range(10, 36))
    assert "nonsense" in str(source.guard()) and source.guard() is None
    for tables, within in (
        (["t"], Range("nonsense = 1")),
        (["t"], Range(first="x")),
        ([], Range(first="1")),
    ):
        with pytest.raises(CaptureError):
            source.request_snapshot(tables, within)


def test_a_table_that_is_added_to_the_settings_is_read_while_the_stream_goes_on(
    setting: Setting,
) -> None:
    setting.execute(
        "CREATE TABLE old (id INT PRIMARY KEY)",
        "CREATE TABLE new (id INT PRIMARY KEY)",
        "CREATE TABLE nokey (id INT)",
        "INSERT INTO new VALUES (1), (2)",
    )
    setting.snapshot(setting.config("old"))
    assert setting.changes("new") == []
    for _ in range(2):
        setting.execute("INSERT INTO old SELECT COUNT(*) FROM old")
        setting.stream(setting.config("old", "new"))
    assert [op for op, _, _ in setting.changes("new")] == ["r", "r"]
    with pytest.raises(SourceRefused, match="nokey"):
        setting.stream(setting.config("old", "nokey"))


def test_a_running_capture_takes_requests_from_the_log(setting: Setting, log: Broker) -> None:
    setting.execute(
        "CREATE TABLE t (id INT PRIMARY KEY)",
        "CREATE TABLE nokey (v INT)",
        "INSERT INTO t VALUES (1), (2)",
    )
    config = setting.config(bootstrap=log.bootstrap)
    runner = Runner(config, heartbeat_s=0.2)
    thread = threading.Thread(target=runner.run)
    thread.start()
    try:
        _until(lambda: runner.status.phase == "streaming")
        assert "t" in setting.source(config).request_snapshot(["t"])
        with pytest.raises(Misconfigured):
            setting.source(config).request_snapshot(["nokey"])
        topic = f"{setting.name}.t"

        def again() -> bool:
            found = [r.value["source"]["snapshot"] for r in read(log.bootstrap, topic)]
            return found.count("incremental") == 2

        _until(again)
        _until(lambda: (runner.status.position or {}).get("requests") == 1)
        assert len(fold(read(log.bootstrap, topic))) == 2
    finally:
        runner.stop()
        thread.join(30)


def _until(condition: object) -> None:
    deadline = time.monotonic() + 100
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("killed", [False, True])
def test_a_table_that_another_is_renamed_to_has_the_rows_of_that_one(
    setting: Setting, killed: bool
) -> None:
    """As online schema changes do it: a copy with other columns takes the table's name."""
    setting.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
        "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)",
        "CREATE TABLE u (id INT PRIMARY KEY)",
        "INSERT INTO u VALUES (1)",
    )
    config = setting.config("t", "u")
    # t has been read, u not yet: the rename is met as the snapshot catches up.
    setting.snapshot(config, batches=2 if killed else None)
    setting.execute(
        "CREATE TABLE copy LIKE t",
        "ALTER TABLE copy ADD COLUMN w INT DEFAULT 7",
        "INSERT INTO copy SELECT id, v, 7 FROM t WHERE id < 3",
        "RENAME TABLE t TO old, copy TO t",
        "UPDATE t SET w = 8 WHERE id = 1",
    )
    if killed:
        setting.snapshot(config)
    expected, deadline = setting.as_snapshot("t"), time.monotonic() + STILL_S
    assert len(expected) == 2
    assert setting.position is not None
    source = setting.source(config)
    for batch in source.stream(setting.position):
        setting.take_all([batch])
        if setting.fold("t") == expected and "incremental" not in batch.position:
            break
        assert time.monotonic() < deadline, setting.fold("t")
