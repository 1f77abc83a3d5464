"""The first snapshot and the hand-over to the stream, with kills in between."""

from __future__ import annotations

import json

import pytest

from headwater.capture.change import in_snapshot
from headwater.capture.errors import Interrupted
from tests.capture.mysql.captured import Setting


def test_the_stream_begins_exactly_where_the_snapshot_stood(setting: Setting) -> None:
    """Changes that are made while the snapshot is read come once, by the stream."""
    setting.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
        "INSERT INTO t SELECT seq, 0 FROM seq_1_to_5000",
    )
    config = setting.config(options={"chunk_rows": 1000})
    source = setting.source(config)
    for number, batch in enumerate(source.snapshot(None)):
        setting._take(batch)
        if number == 0:
            setting.execute(
                "UPDATE t SET v = 1 WHERE id IN (1, 4999)", "DELETE FROM t WHERE id = 7"
            )
    source.close()
    assert [op for op, _, _ in setting.changes("t")] == ["r"] * 5000
    assert all(after["v"] == 0 for _, _, after in setting.changes("t"))
    setting.stream(config)
    assert [op for op, _, _ in setting.changes("t")[5000:]] == ["u", "u", "d"]
    assert setting.fold("t") == setting.as_snapshot("t")
    assert setting.rows == 5003


@pytest.mark.parametrize("killed_after", [1, 2, 3, 5])
def test_a_killed_snapshot_goes_on_where_it_stopped(setting: Setting, killed_after: int) -> None:
    setting.execute(
        "CREATE TABLE a (k VARCHAR(20), n INT, v TEXT, PRIMARY KEY (k, n)) CHARACTER SET latin1",
        "INSERT INTO a SELECT CONCAT('Ä', seq DIV 10), seq, REPEAT('v', 1000) FROM seq_1_to_4000",
        "CREATE TABLE b (id BINARY(4) PRIMARY KEY, v INT)",
        "INSERT INTO b SELECT UNHEX(LPAD(HEX(seq), 8, '0')), seq FROM seq_1_to_300",
        "CREATE TABLE c (id INT PRIMARY KEY)",
    )
    config = setting.config(options={"chunk_rows": 700})
    setting.snapshot(config, batches=killed_after)
    assert in_snapshot(setting.position)
    read = len(setting.changes("a"))
    setting.execute(
        "UPDATE a SET v = 'new' WHERE n IN (1, 2, 3999)",
        "DELETE FROM a WHERE n IN (10, 3990)",
        "INSERT INTO a VALUES ('Ä0', 0, 'between'), ('zz', 1, 'late')",
        "UPDATE a SET n = -1 WHERE n = 3",
        "INSERT INTO b VALUES ('abcd', 1)",
        "INSERT INTO c VALUES (1)",
        "CREATE TABLE d (id INT PRIMARY KEY) SELECT 5 AS id",
    )
    setting.snapshot(config)
    assert not in_snapshot(setting.position)
    setting.execute("INSERT INTO c VALUES (2)")
    setting.stream(config)
    for table in "abcd":
        assert setting.fold(table) == setting.as_snapshot(table), table
    again = [op for op, _, _ in setting.changes("a")].count("r")
    assert again <= 4002, f"of {read} rows that were read none is read again"
    keys = [
        json.dumps(key) for topic, key, value in setting.records if value and value.get("op") == "r"
    ]
    assert len(keys) == len(set(keys))


def test_a_table_without_key_begins_again_after_a_truncate(setting: Setting) -> None:
    setting.execute(
        "CREATE TABLE t (v VARCHAR(1000))",
        "INSERT INTO t SELECT REPEAT('v', 1000) FROM seq_1_to_3000",
    )
    setting.snapshot(batches=2)
    assert 0 < len(setting.changes("t")) < 3000
    setting.execute("DELETE FROM t LIMIT 1")
    setting.snapshot()
    changes = [op for op, _, _ in setting.changes("t")]
    assert changes.count("t") == 1
    assert changes[changes.index("t") + 1 :] == ["r"] * 2999


def test_a_snapshot_takes_no_lock_that_writers_would_feel(setting: Setting) -> None:
    setting.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    source = setting.source()
    batches = source.snapshot(None)
    next(batches)
    setting.execute("SET SESSION lock_wait_timeout = 1", "INSERT INTO t VALUES (2)")
    list(batches)
    source.close()


def test_odd_names_are_quoted(setting: Setting) -> None:
    setting.execute(
        "CREATE TABLE `od%d``na me` (`i%d` INT, `sel``ect` VARCHAR(9), PRIMARY KEY (`i%d`, `sel``ect`))",
        "INSERT INTO `od%d``na me` VALUES (1, 'a'), (2, 'b'), (3, 'c')",
    )
    config = setting.config(options={"chunk_rows": 2})
    setting.snapshot(config)
    setting.execute("INSERT INTO `od%d``na me` VALUES (4, 'd')")
    setting.stream(config)
    rows = [value["after"] for topic, _, value in setting.records if topic.endswith(".od_d_na_me")]
    assert rows == [{"i%d": n, "sel`ect": letter} for n, letter in enumerate("abcd", 1)]


@pytest.mark.parametrize("killed_after", [None, 2, 4])
def test_a_snapshot_that_begins_again_first_empties_what_readers_have(
    setting: Setting, killed_after: int | None
) -> None:
    setting.execute(
        "CREATE TABLE a (id INT PRIMARY KEY, v TEXT)",
        "INSERT INTO a SELECT seq, REPEAT('v', 1000) FROM seq_1_to_3000",
        "CREATE TABLE b (id INT PRIMARY KEY)",
        "INSERT INTO b VALUES (1), (2)",
    )
    setting.snapshot()
    setting.execute("DELETE FROM a WHERE id < 2000", "DELETE FROM b", "RESET MASTER")
    setting.position = {"again": True}
    config = setting.config(options={"chunk_rows": 400})
    if killed_after is not None:
        setting.snapshot(config, batches=killed_after)
        setting.execute("DELETE FROM a WHERE id > 2990")
    setting.snapshot(config)
    setting.stream(config)
    for table in "ab":
        assert setting.fold(table) == setting.as_snapshot(table)
        assert [op for op, _, _ in setting.changes(table)].count("t") == 1


@pytest.mark.parametrize("statement", [
    "ALTER TABLE b MODIFY v BIGINT",
    "ALTER TABLE b DROP COLUMN v",
    "ALTER TABLE b RENAME COLUMN v TO w",
    "DROP TABLE b",
    "RENAME TABLE b TO c",
])  # fmt: skip
def test_a_table_that_is_altered_before_a_snapshot_comes_to_it_is_read_as_it_is_then(
    setting: Setting, statement: str
) -> None:
    setting.execute(
        "CREATE TABLE a (id INT PRIMARY KEY)",
        "CREATE TABLE b (id INT PRIMARY KEY, v INT)",
        "INSERT INTO a VALUES (1)",
        "INSERT INTO b VALUES (1, 1), (2, 2)",
    )
    source = setting.source()

    def altered() -> None:
        for batch in source.snapshot(None):
            setting.take_all([batch])
            if batch.rows:  # a has been read, b not yet
                setting.execute(statement)

    with pytest.raises(Interrupted):
        altered()
    source.close()
    setting.snapshot()
    setting.stream()
    there = [name for (name,) in setting.execute("SHOW TABLES")]
    for table in ("a", "b", "c"):
        expected = setting.as_snapshot(table) if table in there else {}
        assert setting.fold(table) == expected
