"""Rows that come or go without an event for each: with a name, with a partition, with a table in the place of
another."""

from __future__ import annotations

import pytest

from tests.capture.contract import subject
from tests.capture.contract.subject import Subject, needs


@needs(subject.RENAME, subject.ROWS_FOLLOW)
def test_tables_that_swap_their_names_swap_their_rows(shop: Subject) -> None:
    _two_tables(shop)
    shop.snapshot()
    shop.execute(*_swap(shop))
    shop.set("t", 3, 30)
    shop.stream()
    shop.set("u", 1, 10)
    shop.stream()
    for table in ("t", "u"):
        assert shop.fold(table) == shop.select(table), table


@needs(subject.RENAME, subject.ROWS_FOLLOW)
def test_tables_that_swapped_their_names_while_nobody_read_swap_their_rows_if_one_changes(
    shop: Subject,
) -> None:
    _two_tables(shop)
    shop.snapshot()
    shop.stream()
    shop.execute(*_swap(shop))
    shop.set("u", 1, 10)
    shop.stream()
    for table in ("t", "u"):
        assert shop.fold(table) == shop.select(table), table


@needs(subject.RENAME, subject.ROWS_FOLLOW)
def test_tables_that_swap_their_names_while_a_snapshot_is_read_swap_their_rows(
    shop: Subject,
) -> None:
    shop.options = {"chunk_rows": 500}
    shop.create("t")
    shop.insert("t", 1, 1_200)
    shop.create("u")
    shop.insert("u", 2_001, 3_200)
    shop.snapshot(batches=3)
    shop.execute(*_swap(shop))
    shop.set("t", 2_001, 30)
    shop.set("u", 1, 10)
    shop.snapshot()
    shop.stream()
    for table in ("t", "u"):
        assert shop.fold(table) == shop.select(table), table


@needs(subject.RENAME, subject.COLUMNS)
def test_a_name_that_a_table_has_left_has_no_rows(shop: Subject) -> None:
    _two_tables(shop)
    shop.snapshot()
    shop.execute("ALTER TABLE t RENAME TO w")
    shop.insert("w", 5, 5)
    shop.stream()
    assert shop.fold("t") == []
    assert shop.fold("w") == shop.select("w")


@needs(subject.PARTITIONS)
def test_rows_that_come_and_go_with_a_partition_come_and_go_for_readers(shop: Subject) -> None:
    shop.execute(
        "CREATE TABLE t (id int PRIMARY KEY, n int, s varchar(9)) PARTITION BY RANGE (id) (PARTITION a "
        "VALUES LESS THAN (10), PARTITION b VALUES LESS THAN (20), PARTITION c VALUES LESS THAN (30))",
        "CREATE TABLE u (id int PRIMARY KEY, n int, s varchar(9))",
    )
    for first in (1, 11, 21):
        shop.insert("t", first, first + 1)
    shop.insert("u", 13, 14)
    shop.snapshot()
    for what in (
        "TRUNCATE PARTITION a",
        "EXCHANGE /* both ways */ PARTITION `b` WITH TABLE u",
        "EXCHANGE PARTITION b WITH TABLE `u`",
        "DROP PARTITION b",
        "COMMENT 'a DROP PARTITION that is none'",
    ):
        shop.execute(f"ALTER TABLE t {what}")
        shop.stream()
        for table in ("t", "u"):
            assert shop.fold(table) == shop.select(table), (what, table)
    read_again = [op for op, _ in shop.changes("t")].count("t")
    assert read_again == 4


@needs(subject.PARTITIONS)
def test_rows_that_went_with_a_partition_are_only_told_of_where_that_is_wanted(
    shop: Subject,
) -> None:
    shop.options = {"read_moved_rows": False}
    shop.execute(
        "CREATE TABLE t (id int PRIMARY KEY, n int, s varchar(9)) PARTITION BY RANGE (id) (PARTITION a "
        "VALUES LESS THAN (10), PARTITION b VALUES LESS THAN (20))"
    )
    shop.insert("t", 1, 1)
    shop.snapshot()
    shop.execute("ALTER TABLE t TRUNCATE PARTITION a")
    shop.stream()
    assert [op for op, _ in shop.changes("t")] == ["r"]
    told = [value for topic, _, value in shop.records if topic.endswith(".schema-changes")]
    assert told[-1]["moves_rows"]


@needs(subject.REPLACE)
def test_rows_that_a_statement_leaves_out_or_takes_away_are_gone_for_readers(shop: Subject) -> None:
    _two_tables(shop)
    shop.snapshot()
    for statement in (
        'ALTER TABLE t COMMENT "not to RENAME u"',
        "ALTER IGNORE TABLE t ADD UNIQUE (s(9))",
        "SET STATEMENT lock_wait_timeout=9 FOR TRUNCATE TABLE u",
    ):
        shop.execute(statement)
        shop.stream()
        for table in ("t", "u"):
            assert shop.fold(table) == shop.select(table), (statement, table)


@needs(subject.REPLACE)
def test_a_table_that_is_put_in_the_place_of_another_has_none_of_its_rows(shop: Subject) -> None:
    _two_tables(shop)
    shop.snapshot()
    shop.execute("CREATE OR REPLACE TABLE t (id int PRIMARY KEY, z text)")
    shop.execute("INSERT INTO t VALUES (7, 'new')")
    shop.execute("CREATE OR REPLACE TABLE u AS SELECT id + 100 AS id, z FROM t")
    shop.stream()
    assert shop.fold("t") == [{"id": 7, "z": "new"}]
    assert [op for op, _ in shop.changes("u")] == ["r", "r", "t", "c"]


_NAMED = (
    ", b TIMESTAMP(6) GENERATED ALWAYS AS ROW START, e TIMESTAMP(6) GENERATED ALWAYS AS ROW END, "
    "PERIOD FOR SYSTEM_TIME (b, e)"
)


@needs(subject.REPLACE)
def test_a_table_whose_columns_are_only_called_as_those_of_old_rows_has_all_its_rows(
    shop: Subject,
) -> None:
    shop.execute(
        "CREATE TABLE t (id INT, n INT, s TEXT, row_start TIMESTAMP(6) NULL, "
        "row_end TIMESTAMP(6) NOT NULL DEFAULT '2020-01-01', PRIMARY KEY (id, row_end))"
    )
    shop.snapshot()
    shop.execute("INSERT INTO t (id, n, s) VALUES (1, 1, 'a'), (2, 2, 'b')")
    shop.stream()
    assert _short(shop.fold("t")) == [(1, 1, "a"), (2, 2, "b")]


@needs(subject.VERSIONS)
@pytest.mark.parametrize("period", ["", _NAMED], ids=["hidden", "named"])
@pytest.mark.parametrize("key", ["PRIMARY KEY", "NOT NULL UNIQUE"])
def test_of_a_table_that_keeps_its_old_rows_readers_have_those_that_hold(
    shop: Subject, key: str, period: str
) -> None:
    shop.execute(f"CREATE TABLE t (id INT {key}, n INT, s TEXT{period}) WITH SYSTEM VERSIONING")
    shop.insert("t", 1, 6)
    shop.set("t", 1, 10)
    shop.snapshot()
    first = len(shop.records)
    shop.set("t", 1, 20)
    shop.delete("t", 2)
    shop.execute(
        "UPDATE t SET id = 30 WHERE id = 3", "REPLACE INTO t (id, n, s) VALUES (4, 40, 'y')"
    )
    shop.stream()
    assert _short(shop.fold("t")) == _short(shop.select("t"))
    shop.execute("DELETE HISTORY FROM t")
    shop.set("t", 5, 50)
    shop.stream()
    assert _short(shop.fold("t")) == _short(shop.select("t"))
    ops = {value["op"] for _, _, value in shop.records[first:] if value and "op" in value}
    assert ops == {"c", "u", "d"}  # not read again, as if it had another key


@needs(subject.VERSIONS)
def test_a_table_that_begins_or_ceases_to_keep_its_old_rows_has_each_row_once(
    shop: Subject,
) -> None:
    shop.create("t")
    shop.insert("t", 1, 5)
    shop.snapshot()
    for number, statement in enumerate(
        (
            "ALTER TABLE t ADD SYSTEM VERSIONING",
            "SET STATEMENT system_versioning_alter_history = KEEP FOR ALTER TABLE t ADD m INT",
            "ALTER TABLE t DROP SYSTEM VERSIONING",
        )
    ):
        shop.execute(statement)
        shop.set("t", 1, number)
        shop.delete("t", 2 + number)
        shop.stream()
        assert _short(shop.fold("t")) == _short(shop.select("t")), statement


def _short(rows: list[subject.Row]) -> list[tuple[object, ...]]:
    """Without the times of a version, which records write in another form."""
    return [(row["id"], row["n"], row["s"]) for row in rows]


def _two_tables(shop: Subject) -> None:
    shop.create("t")
    shop.insert("t", 1, 2)
    shop.create("u")
    shop.insert("u", 3, 4)


def _swap(shop: Subject) -> list[str]:
    names = (("t", "x"), ("u", "t"), ("x", "u"))
    if subject.PARTITIONS in shop.can:
        return [f"RENAME TABLE {', '.join(f'{old} TO {new}' for old, new in names)}"]
    renames = [f"ALTER TABLE {old} RENAME TO {new}" for old, new in names]
    return ["; ".join(["BEGIN", *renames, "COMMIT"])]
