"""Tables read again while they change; and what happens without the algorithm's de-duplication."""

from __future__ import annotations

import os
import threading
from collections import Counter

import pytest

from headwater.capture.errors import CaptureError
from headwater.capture.postgres import open_source, table_lock
from headwater.capture.postgres.catalog import Table
from headwater.capture.postgres.connection import Connection
from headwater.capture.postgres.incremental import Incremental
from headwater.capture.postgres.requests import request
from headwater.capture.runner import Runner
from headwater.capture.source import Range
from tests.capture.core.reading import fold
from tests.capture.postgres.running import Setting, eventually, key

ROUNDS = 4
SOAK = os.environ.get("HEADWATER_SOAK") == "1"


def snapshot_under_load(setting: Setting) -> tuple[list[tuple[int, int]], dict[int, int]]:
    """Read a table again while it changes; the table, and what the topic makes of it."""
    setting.execute(
        "CREATE TABLE t (id int PRIMARY KEY, v int)",
        "INSERT INTO t SELECT n, 0 FROM generate_series(1, 60) n",
    )
    config = setting.config("t", partitions=1, options={"chunk_rows": 20})
    with setting.running(config) as runner:
        over = threading.Event()

        def change() -> None:
            with setting.connect() as connection:
                connection.autocommit = True
                for n in range(1, 100_000):
                    if over.is_set():
                        return
                    connection.execute("UPDATE t SET v = %s WHERE id = %s", [n, n % 60 + 1])

        writer = threading.Thread(target=change)
        writer.start()
        source = open_source(config)
        for number in range(ROUNDS):
            source.request_snapshot(["t"])
            setting.caught_up(runner)
            eventually("it is complete", lambda asked=number + 1: has_read(runner, asked))
        source.close()
        over.set()
        writer.join(60)
        setting.caught_up(runner)
    table = setting.execute("SELECT id, v FROM t ORDER BY id")
    return table, {row["id"]: row["v"] for row in fold(setting.read("t")).values()}


def has_read(runner: Runner, asked: int = 1) -> bool:
    """Whether what was asked for so often has been taken up, and read to its end."""
    position = runner.status.position or {}
    return position.get("requests", 0) >= asked and "incremental" not in position


def went_back(setting: Setting) -> int:
    """How often a row took on a value that is older than one before it."""
    latest: dict[int, int] = {}
    back = 0
    for record in setting.read("t"):
        row = record.value["after"]
        back += row["v"] < latest.get(row["id"], 0)
        latest[row["id"]] = row["v"]
    return back


@pytest.mark.parametrize("careful", [True, False])
def test_a_row_that_changes_while_it_is_read_again_does_not_go_back_unless_nobody_looks(
    setting: Setting, monkeypatch: pytest.MonkeyPatch, careful: bool
) -> None:
    setting.execute(
        "CREATE TABLE t (id int PRIMARY KEY, v int)",
        "INSERT INTO t SELECT n, 0 FROM generate_series(1, 6) n",
    )
    config = setting.config("t", partitions=1, options={"chunk_rows": 2})

    def meddle() -> None:
        setting.execute("UPDATE t SET v = v + 1 WHERE id IN (2, 5)")

    monkeypatch.setattr(Incremental, "between", staticmethod(meddle))
    monkeypatch.setattr(Incremental, "deduplicate", careful)
    with setting.running(config) as runner:
        source = open_source(config)
        source.request_snapshot(["t"])
        source.close()
        setting.caught_up(runner)
        eventually("it is complete", lambda: has_read(runner))
        setting.caught_up(runner)
    back = went_back(setting)
    assert back == 0 if careful else back > 0, "without de-duplication the test notices"
    read = {
        r.key["id"] for r in setting.read("t") if r.value["source"]["snapshot"] == "incremental"
    }
    assert read == ({1, 3, 4, 6} if careful else {1, 2, 3, 4, 5, 6})


def test_a_range_of_rows_is_read_again_and_one_that_no_longer_fits_is_given_up(
    setting: Setting,
) -> None:
    setting.execute(
        "CREATE TABLE t (id int PRIMARY KEY, v int)",
        "INSERT INTO t SELECT n, n % 2 FROM generate_series(1, 40) n",
    )
    config, said = setting.config("t", options={"chunk_rows": 5}), []
    with setting.running(config, say=said.append, guard_every_s=0.05) as runner:
        source = open_source(config)
        source.request_snapshot(["t"], Range("v = 0", "10", "20"))
        for tables, within in ((["t"], Range("nonsense = 1")), ([], Range(first="1"))):
            with pytest.raises(CaptureError):
                source.request_snapshot(tables, within)
        request(source._database(), config, ["public.t"], "nonsense = 1")
        source.close()
        eventually("it is given up", lambda: any("was not read again" in one for one in said))
        setting.caught_up(runner)
    again = [r for r in setting.read("t") if r.value["source"]["snapshot"] == "incremental"]
    assert sorted(r.key["id"] for r in again) == [10, 12, 14, 16, 18, 20]


def test_rows_that_are_asked_for_while_it_is_down_are_read_at_the_next_start(
    setting: Setting,
) -> None:
    setting.execute(
        "CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 9)"
    )
    config = setting.config("t")
    with setting.running(config) as runner:
        setting.caught_up(runner)
    source = open_source(config)
    source.request_snapshot(["t"], Range("id > 7"))
    source.close()
    for round in (1, 2):  # once, also across restarts
        with setting.running(config) as runner:
            setting.execute(f"INSERT INTO t VALUES (9 + {round})")
            eventually("they are read", lambda: len(setting.read("t")) >= 12)
            setting.caught_up(runner)
            eventually("it is complete", lambda: has_read(runner))
            setting.caught_up(runner)
    again = [r for r in setting.read("t") if r.value["source"]["snapshot"] == "incremental"]
    read = sorted(r.key["id"] for r in again)
    assert read in ([8, 9], [8, 9, 10]), read  # 10 was there before the chunk, or came beside it


@pytest.mark.parametrize(
    "content",
    [
        '{"tables": ["public.t"], "where": "pg_sleep(0) IS NOT NULL"}',
        '{"tables": ["public.t"]}',
        '{"tables": ["public.t"], "anew": true}',
        '{"tables": ["public.t"], "id": "5f0c"}',
    ],
)
def test_what_is_asked_for_in_the_database_is_not_done_as_every_role_may_ask_there(
    setting: Setting, content: str
) -> None:
    """A condition would be evaluated with the capture's rights, and whole tables be read again and again."""
    setting.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    said: list[str] = []
    with setting.running(setting.config("t"), say=said.append, guard_every_s=0.05) as runner:
        for transactional in ("true", "false"):
            setting.execute(
                f"SELECT pg_logical_emit_message({transactional}, 'headwater.snapshot', '{content}')"
            )
        eventually("it is told", lambda: any("every role may ask" in one for one in said))
        setting.execute("INSERT INTO t VALUES (2)")
        setting.caught_up(runner)
    records = [r.value for r in setting.read("t") if r.value is not None]
    kinds = [(record["op"], record["source"]["snapshot"]) for record in records]
    assert sorted(kinds) == [("c", "false"), ("r", "true")], kinds


@pytest.mark.parametrize(
    "content", ["[" * 100_000, '{"tables": 5}', '{"tables": ["public.t"], "where": "\\ud800"}', "["]
)
def test_a_message_that_only_looks_like_a_request_stops_no_capture(
    setting: Setting, content: str
) -> None:
    """Every role of the database may leave one."""
    setting.execute("CREATE TABLE t (id int PRIMARY KEY)")
    with setting.running(setting.config("t")) as runner:
        setting.execute(f"SELECT pg_logical_emit_message(true, 'headwater.snapshot', '{content}')")
        setting.execute("INSERT INTO t VALUES (1)")
        setting.caught_up(runner)
    assert len(setting.read("t")) == 1


def test_a_table_that_is_rewritten_as_it_is_read_again_is_not_taken_for_empty(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting.execute("CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 1)")
    left, lock = ["ALTER TABLE t ALTER COLUMN v TYPE bigint USING v + 1"], table_lock.lock

    def late(connection: Connection, table: Table) -> None:
        if left:  # the snapshot is there, and the table not yet locked
            setting.execute(left.pop())
        lock(connection, table)

    with setting.running(setting.config("t", partitions=1)) as runner:
        monkeypatch.setattr(table_lock, "lock", late)
        source = open_source(setting.config("t"))
        source.request_snapshot(["t"])
        source.close()
        eventually("it is read", lambda: setting.fold("t") == {key(id=1): {"id": 1, "v": 2}})
        setting.caught_up(runner)


@pytest.mark.skipif(not SOAK, reason="make soak: how many changes it meets is a matter of luck")
def test_an_incremental_snapshot_never_takes_a_row_back(setting: Setting) -> None:
    table, topic = snapshot_under_load(setting)
    assert topic == dict(table)
    assert went_back(setting) == 0
    kinds = Counter(record.value["source"]["snapshot"] for record in setting.read("t"))
    assert kinds["true"] == 60 and kinds["incremental"] > 0


def test_a_table_that_is_added_later_is_read_while_the_others_go_on(setting: Setting) -> None:
    setting.execute("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)")
    setting.execute("INSERT INTO b SELECT generate_series(1, 50)")
    with setting.running(setting.config("a")) as runner:
        setting.caught_up(runner)
    with setting.running(setting.config("a", "b")) as runner:
        setting.execute("INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (51)")
        setting.wait_for("b", 51)
        setting.caught_up(runner)
    with setting.running(setting.config("a", "b")) as runner:
        setting.caught_up(runner)
    assert sorted(row["id"] for row in setting.fold("b").values()) == list(range(1, 52))
    # Row 51 is told as created, and read as well if it was there before the chunk's first mark.
    read = Counter(r.key["id"] for r in setting.read("b") if r.value["op"] == "r")
    assert set(read) - {51} == set(range(1, 51))
    assert set(read.values()) == {1}, "read once, and not again at the next start"
