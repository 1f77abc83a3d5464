"""The contract, where a table's key becomes another: by statement, by type, by name, while nobody looks."""

from __future__ import annotations

import itertools

import pytest

from headwater.capture.source import open_source
from tests.capture.contract import subject
from tests.capture.contract.subject import Subject, needs


def begun(shop: Subject, rows: int = 3) -> None:
    shop.create("t")
    shop.insert("t", 1, rows)
    shop.execute("UPDATE t SET n = n + 100")
    shop.snapshot()


def is_as_selected(shop: Subject, what: str = "") -> None:
    assert shop.fold("t") == shop.select("t"), what


@needs(subject.KEYS_REDEFINED)
def test_a_table_that_gets_another_key_has_each_row_once(shop: Subject) -> None:
    begun(shop)
    for columns in (("n",), ("n", "id"), ("id",)):
        shop.redefine("t", *columns)
        shop.set("t", 2, 1000 + len(shop.records))
        shop.stream()
        is_as_selected(shop, f"the key is {columns}")
    shop.delete("t", 1)
    shop.stream()
    is_as_selected(shop)


@needs(subject.KEYS_REDEFINED)
def test_a_table_that_gets_another_key_while_it_is_followed_has_each_row_once(
    shop: Subject,
) -> None:
    begun(shop)
    source = open_source(shop.config())
    steps = iter(
        [
            lambda: shop.set("t", 1, 201),
            lambda: shop.redefine("t", "n"),
            lambda: shop.set("t", 1, 202),
            lambda: shop.delete("t", 3),
            lambda: shop.insert("mark", 1, 1),
        ]
    )
    try:
        source.topics()
        for _ in shop.followed(source):
            next(steps, lambda: None)()
            if shop.marked and "incremental" not in (shop.position or {}):
                break
    finally:
        source.close()
    is_as_selected(shop)


@needs(subject.KEYS_REDEFINED)
def test_two_keys_that_came_and_went_while_nobody_looked_leave_no_row(shop: Subject) -> None:
    begun(shop)
    shop.redefine("t", "n")
    shop.set("t", 1, 11)
    shop.redefine("t", "id")
    shop.set("t", 2, 12)
    shop.redefine("t", "n")
    shop.set("t", 3, 13)
    shop.delete("t", 1)
    shop.stream()
    is_as_selected(shop)


@needs(subject.KEYS_REDEFINED)
def test_a_keys_column_that_is_renamed_or_retyped_leaves_no_row_under_the_old_form(
    shop: Subject,
) -> None:
    begun(shop)
    shop.execute("ALTER TABLE t RENAME COLUMN n TO m")
    shop.redefine("t", "m")
    shop.execute("UPDATE t SET s = 'y' WHERE id = 1")
    shop.stream()
    is_as_selected(shop)
    shop.execute("ALTER TABLE t RENAME COLUMN m TO n", "UPDATE t SET s = 'z' WHERE id = 2")
    shop.stream()
    is_as_selected(shop, "renamed")
    shop.retype_as_text("t", "n")
    shop.execute("UPDATE t SET s = 'w' WHERE id = 3")
    shop.stream()
    is_as_selected(shop, "retyped")


@needs(subject.KEYS_REDEFINED)
def test_a_wider_number_as_key_is_the_same_key(shop: Subject) -> None:
    begun(shop)
    shop.execute(*shop.ddl["rewritten"], "UPDATE t SET s = 'y' WHERE id = 2")
    shop.stream()
    is_as_selected(shop)
    assert "t" not in [op for op, _ in shop.changes("t")]


@needs(subject.KEYS_REDEFINED)
def test_a_table_that_has_no_key_for_a_while_has_each_row_once_when_it_has_one_again(
    shop: Subject,
) -> None:
    begun(shop)
    shop.redefine("t")
    shop.insert("t", 4, 5)
    shop.stream()
    shop.redefine("t", "n")
    shop.set("t", 1, 11)
    shop.stream()
    is_as_selected(shop)


@needs(subject.KEYS_REDEFINED, subject.READ_AGAIN)
@pytest.mark.parametrize("redefined_at", [1, 2, 3])
def test_a_key_that_changes_between_the_parts_of_a_snapshot_that_is_killed_costs_no_row(
    shop: Subject, redefined_at: int
) -> None:
    shop.options = {"chunk_rows": 5, "snapshot_workers": 1}
    shop.create("t")
    shop.insert("t", 1, 20)
    shop.execute("UPDATE t SET n = 1000 - n, s = 'x'")
    for step in itertools.count(1):
        shop.snapshot(batches=2, while_catching_up=False)
        if shop.position is not None and "snapshot" not in shop.position:
            break
        assert step < 60, "a snapshot never ends"
        if step == redefined_at:
            shop.redefine("t", "n")
            shop.set("t", 7, 5) if redefined_at != 2 else None
        shop.execute(f"UPDATE t SET s = 'y{step}' WHERE id = 9") if redefined_at != 2 else None
    shop.stream()
    shop.delete("t", 1)
    shop.stream()
    is_as_selected(shop)


@needs(subject.KEYS_REDEFINED, subject.READ_AGAIN)
def test_a_key_that_changed_is_read_to_its_end_however_often_the_capture_is_killed(
    shop: Subject,
) -> None:
    shop.options = {"chunk_rows": 3}
    begun(shop, 20)
    shop.redefine("t", "n")
    shop.set("t", 20, 1)
    for step in range(60):
        source = open_source(shop.config())
        try:
            source.topics()
            before = len(shop.records)
            for _ in shop.followed(source):
                if len(shop.records) > before or "incremental" not in (shop.position or {}):
                    break  # what would come is lost, as by kill -9
        finally:
            source.close()
        if step == 1:
            shop.redefine("t", "n", "id")  # while its rows are read
        if step < 4:
            shop.set("t", 2 + step, 2000 + step)
        elif "incremental" not in (shop.position or {}):
            break
    else:
        raise AssertionError("its rows are read for ever")
    shop.stream()
    is_as_selected(shop)


@needs(subject.KEYS_REDEFINED, subject.READ_AGAIN)
@pytest.mark.parametrize("after", [None, ["110"]])
def test_a_table_that_is_read_again_under_another_key_has_each_row_once(
    shop: Subject, after: list[str] | None
) -> None:
    """No row has changed since: only reading finds that the key is another."""
    begun(shop, 20)
    shop.redefine("t", "n")
    shop.read_again("t", after)
    shop.stream()
    is_as_selected(shop)
    shop.set("t", 1, 99)
    shop.stream()
    is_as_selected(shop)
    assert [op for op, _ in shop.changes("t")].count("t") == 1


@needs(subject.NO_KEY, subject.PARTITIONS)
def test_a_table_whose_key_is_a_unique_index_has_it_when_read_and_when_streamed(
    shop: Subject,
) -> None:
    shop.execute(
        "CREATE TABLE t (id int, a int NOT NULL, b int NOT NULL, c int NOT NULL, s varchar(9) NOT NULL, "
        "UNIQUE (id), UNIQUE (s(3)), UNIQUE (c, b), UNIQUE (a))",
        "CREATE TABLE w (id int, s varchar(9) NOT NULL, UNIQUE (id), UNIQUE (s(3)))",
        "INSERT INTO t VALUES (1, 1, 1, 1, 'x'), (2, 2, 2, 2, 'y')",
        "INSERT INTO w VALUES (1, 'x')",
    )
    shop.snapshot()
    shop.execute("UPDATE t SET id = id + 10", "INSERT INTO w VALUES (2, 'y')")
    shop.stream()
    assert shop.fold("t") == shop.select("t")
    assert {key for topic, key, _ in shop.records if topic == f"{shop.name}.w"} == {None}
