"""The first snapshot: resumed after a stop at any chunk, and handed over without gap or overlap."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from headwater.capture.change import Batch, Position, in_snapshot
from headwater.capture.config import CaptureConfig
from headwater.capture.postgres.source import PostgresSource
from headwater.capture.runner import Runner
from tests.capture.postgres.running import Setting, eventually


class Dying(PostgresSource):
    """A source whose process ends after so many batches: nothing is closed in order."""

    left = 3

    def snapshot(self, position: Position | None) -> Iterator[Batch]:
        for batch in super().snapshot(position):
            if self.left == 0:
                raise KeyboardInterrupt
            type(self).left -= 1
            yield batch


def run_and_die(config: CaptureConfig, batches: int) -> Runner:
    class Mortal(Dying):
        left = batches

    runner = Runner(config, open_source=Mortal)
    try:
        runner.run(until_streaming=True)
    except KeyboardInterrupt:
        pass
    return runner


@pytest.mark.parametrize("partitioned", [False, True])
def test_a_chunk_is_small_whatever_the_server_knows_of_its_table(
    setting: Setting, partitioned: bool
) -> None:
    """Of one that was just filled, or restored, it knows nothing; of a partitioned one no size."""
    by = "PARTITION BY RANGE (id)" if partitioned else ""
    setting.execute(f"CREATE TABLE t (id int PRIMARY KEY, s text) {by}")
    if partitioned:
        setting.execute("CREATE TABLE t1 PARTITION OF t DEFAULT")
    setting.execute(
        "ALTER TABLE t ALTER s SET STORAGE EXTERNAL",
        "INSERT INTO t SELECT n, repeat(n % 10 || '', 200000) FROM generate_series(1, 200) n",
        *(["ANALYZE t"] if partitioned else []),
    )
    source = PostgresSource(setting.config("t"))
    sizes = [
        sum(len(record[2] or b"") for record in batch.records) for batch in source.snapshot(None)
    ]
    source.close()
    assert sum(sizes) > 40_000_000
    assert max(sizes) < 5_000_000


def test_a_snapshot_goes_on_where_it_stopped_and_never_shows_an_older_row_after_a_newer(
    setting: Setting,
) -> None:
    setting.execute(
        "CREATE TABLE a (id int, part text, v int, PRIMARY KEY (id, part))",
        "CREATE TABLE b (id int PRIMARY KEY, v int)",
        "INSERT INTO a SELECT n, 'it''s ' || n % 3, 0 FROM generate_series(1, 100) n",
        "INSERT INTO b SELECT n, 0 FROM generate_series(1, 50) n",
    )
    config = setting.config("a", "b", options={"chunk_rows": 40})
    rounds = 0
    while rounds < 30:
        rounds += 1
        runner = run_and_die(config, 2)
        if not in_snapshot(runner.status.position):
            break
        # Rows that were read, and rows that were not.
        setting.execute(
            "UPDATE a SET v = v + 1 WHERE id % 10 = 5",
            f"DELETE FROM b WHERE id = {rounds}",
            f"INSERT INTO b VALUES ({1000 + rounds}, 1)",
        )
    assert rounds > 2
    with setting.running(config) as runner:
        setting.execute("UPDATE a SET v = v + 1 WHERE id = 1")
        setting.caught_up(runner)
    for table in ("a", "b"):
        expected = setting.execute(f"SELECT to_jsonb(t) FROM {table} t")
        made = [tuple(sorted(row.items())) for row in setting.fold(table).values()]
        assert sorted(made) == sorted(tuple(sorted(row.items())) for (row,) in expected)
    latest: dict[str, int] = {}
    for record in setting.read("a"):
        assert record.value["after"]["v"] >= latest.get(str(record.key), 0)
        latest[str(record.key)] = record.value["after"]["v"]
    read = Counter(str(r.key) for r in setting.read("a") if r.value["op"] == "r")
    assert set(read.values()) == {1}, "each row was read once"


def test_a_table_without_key_starts_over_with_a_truncate(setting: Setting) -> None:
    setting.execute(
        "CREATE TABLE t (v int)",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        "INSERT INTO t VALUES (1), (2)",
    )
    config = setting.config("t", partitions=1)
    run_and_die(config, 3)
    with setting.running(config) as runner:
        setting.caught_up(runner)
    ops = [record.value["op"] for record in setting.read("t")]
    assert ops in (["r", "r", "t", "r", "r"], ["t", "r", "r"])


@pytest.mark.parametrize("statement", [
    "ALTER TABLE b ALTER COLUMN v TYPE bigint",
    "ALTER TABLE b DROP COLUMN v",
    "ALTER TABLE b RENAME COLUMN v TO w",
    "ALTER TABLE b RENAME TO c",
    "TRUNCATE b",
    "VACUUM FULL b",
])  # fmt: skip
def test_a_table_that_is_altered_before_a_snapshot_comes_to_it_is_read_as_it_is_then(
    setting: Setting, statement: str
) -> None:
    setting.execute(
        "CREATE TABLE a (id int PRIMARY KEY, v int)",
        "CREATE TABLE b (id int PRIMARY KEY, v int)",
        "INSERT INTO a SELECT n, 0 FROM generate_series(1, 5) n",
        "INSERT INTO b SELECT n, n FROM generate_series(1, 50) n",
    )
    left = [statement]

    class Altered(PostgresSource):
        def snapshot(self, position: Position | None) -> Iterator[Batch]:
            for batch in super().snapshot(position):
                yield batch
                if batch.rows and left:  # a has been read, b not yet
                    setting.execute(left.pop())

    with setting.running(setting.config(), open_source=Altered, guard_every_s=0.1) as runner:
        setting.caught_up(runner)
        table = "c" if "TO c" in statement else "b"
        expected = setting.execute(f"SELECT to_jsonb(t) FROM {table} t ORDER BY id")
        eventually(
            "its rows are those of the table",
            lambda: (
                sorted(setting.fold(table).values(), key=lambda row: row["id"])
                == [row for (row,) in expected]
            ),
        )


def test_nothing_is_missed_or_repeated_between_snapshot_and_stream(setting: Setting) -> None:
    setting.execute(
        "CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 500)"
    )
    over = threading.Event()

    def insert() -> None:
        with setting.connect() as connection:
            connection.autocommit = True
            for n in range(501, 100_000):
                if over.is_set():
                    return
                connection.execute("INSERT INTO t VALUES (%s)", [n])

    writer = threading.Thread(target=insert)
    writer.start()
    config = setting.config("t", options={"chunk_rows": 25})
    with setting.running(config) as runner:
        over.set()
        writer.join(60)
        setting.caught_up(runner)
    ids = [record.value["after"]["id"] for record in setting.read("t")]
    [(count,)] = setting.execute("SELECT count(*) FROM t")
    assert len(ids) == count and sorted(ids) == list(range(1, count + 1))


def test_a_resumed_snapshot_never_stores_less_than_the_slot_has_confirmed(
    setting: Setting,
) -> None:
    setting.execute(
        "CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 100)"
    )
    config = setting.config("t", options={"chunk_rows": 10})
    stored = 0
    for _ in range(4):
        # Nothing is captured, but the server's log grows: it lets us confirm beyond the snapshot.
        setting.execute("CREATE TABLE IF NOT EXISTS other (n int)", "INSERT INTO other VALUES (1)")
        runner = run_and_die(config, 3)
        position = runner.status.position
        assert position is not None and position["lsn"] >= stored
        stored = position["lsn"]
        [(confirmed,)] = setting.execute(
            "SELECT (confirmed_flush_lsn - '0/0')::int8 FROM pg_replication_slots "
            f"WHERE slot_name = 'headwater_{setting.name}'"
        )
        assert confirmed <= stored


def test_chunks_have_the_size_that_was_asked_for(setting: Setting) -> None:
    setting.execute(
        "CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 1000)"
    )
    source = PostgresSource(setting.config("t", options={"chunk_rows": 100}))
    sizes = [len(batch.records) for batch in source.snapshot(None) if batch.rows]
    source.close()
    assert sizes == [100] * 10
