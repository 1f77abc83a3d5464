"""The capture contract: what holds for every server, by what it can do."""

from __future__ import annotations

import itertools
import time

import pytest

from headwater.capture.errors import Gap, Interrupted
from headwater.capture.source import Guarded, open_source
from tests.capture.contract import subject
from tests.capture.contract.subject import OTHER, Subject, needs
from tests.capture.core.proxy import Proxy
from tests.conftest import SOAK

MANY = 1_000_000 if SOAK else 20_000
YEAR_S = 31_557_600


def test_every_type_is_read_as_it_is_streamed_and_as_a_select_shows_it(shop: Subject) -> None:
    shop.write_types()
    shop.snapshot()
    shop.write_types_again()
    shop.stream()
    rows = shop.fold("types")
    read = [row for row in rows if row["id"] < OTHER]
    streamed = [{**row, "id": row["id"] - OTHER} for row in rows if row["id"] >= OTHER]
    assert differing(read, streamed) == []
    selected = shop.selected_types()
    shown = [
        {name: row[name] for name in wanted} for row, wanted in zip(read, selected, strict=True)
    ]
    assert differing(shown, selected) == []


@needs(subject.SESSIONS, subject.NO_KEY)
def test_what_a_servers_sessions_begin_with_changes_no_row(shop: Subject) -> None:
    shop.write_types()
    shop.create("t")
    shop.insert("t", 1, 3_000)
    shop.execute("CREATE TABLE z (n int)", *(f"INSERT INTO z VALUES ({n})" for n in range(20)))
    selected = shop.selected_types()
    shop.begin_sessions_oddly()
    shop.snapshot()
    shop.write_types_again()
    shop.insert("t", 3_001, 3_010)
    shop.execute("INSERT INTO z VALUES (20)")
    shop.stream()
    assert shop.fold("t") == shop.select("t")
    assert sorted(row["n"] for _, row in shop.changes("z")) == list(range(21))
    rows = shop.fold("types")
    read = [row for row in rows if row["id"] < OTHER]
    assert differing(read, [{**row, "id": row["id"] - OTHER} for row in rows[len(read) :]]) == []
    shown = [
        {name: row[name] for name in wanted} for row, wanted in zip(read, selected, strict=True)
    ]
    assert differing(shown, selected) == []


def differing(some: list[subject.Row], others: list[subject.Row]) -> list[object]:
    """Where two lists of rows are not the same; NaN, which equals nothing, is compared by its text."""
    assert [row["id"] for row in some] == [row["id"] for row in others]
    return [
        (one["id"], name, one[name], other[name])
        for one, other in zip(some, others, strict=True)
        for name in other
        if repr(one[name]) != repr(other[name])
    ]


def test_rows_that_come_change_and_go_are_the_rows_that_a_select_shows(shop: Subject) -> None:
    shop.create("t")
    shop.insert("t", 1, 2_500)
    shop.snapshot()
    assert shop.fold("t") == shop.select("t")
    shop.insert("t", 3_000, 3_000)
    for identity in (1, 1_250, 3_000):
        shop.set("t", identity, -identity)
    shop.delete("t", 2)
    shop.delete("t", 3_000)
    shop.insert("t", 3_000, 3_001)
    shop.stream()
    assert shop.fold("t") == shop.select("t")


def test_a_snapshot_that_is_killed_goes_on_and_shows_no_row_older_than_before(
    shop: Subject,
) -> None:
    shop.options = {"chunk_rows": 500} if subject.READ_AGAIN in shop.can else {}
    shop.create("t")
    shop.insert("t", 1, 2_500)
    for step in range(1, 40):
        # A slow server says now and then that nothing has come: that alone may be two batches.
        shop.snapshot(batches=2, while_catching_up=step % 2 == 0)
        if shop.position is not None and "snapshot" not in shop.position:
            break
        shop.set("t", step, -step)
        shop.set("t", 2_500 - step, -step)
        shop.delete("t", 100 + step)
        shop.insert("t", 5_000 + step, 5_000 + step)
    else:
        raise AssertionError("a snapshot never ends")
    shop.stream()
    assert shop.fold("t") == shop.select("t")


@needs(subject.NO_KEY)
def test_a_snapshot_that_is_killed_shows_no_row_without_a_key_twice(shop: Subject) -> None:
    shop.options = {"chunk_rows": 500}
    shop.create("t")
    shop.insert("t", 1, 1_000)
    shop.execute("CREATE TABLE z (n int)", "INSERT INTO z VALUES (1), (2), (2)")
    shop.snapshot(batches=2)
    shop.execute("INSERT INTO z VALUES (3)")
    shop.snapshot(batches=1)
    shop.execute("INSERT INTO z VALUES (4)")
    shop.snapshot()
    shop.execute("INSERT INTO z VALUES (5)")
    shop.stream()
    there = []
    for op, row in shop.changes("z"):
        there = [] if op == "t" else [*there, row["n"]]
    assert sorted(there) == [1, 2, 2, 3, 4, 5]


@needs(subject.KEYS_CHANGE)
def test_a_changed_key_is_a_delete_and_a_create(shop: Subject) -> None:
    shop.create("t")
    shop.insert("t", 1, 3)
    shop.snapshot()
    shop.execute("UPDATE t SET id = 10 WHERE id = 2", "UPDATE t SET id = id + 100")
    shop.stream()
    assert [row["id"] for row in shop.fold("t")] == [101, 103, 110]
    assert shop.fold("t") == shop.select("t")


@needs(subject.TRUNCATE)
def test_a_truncated_table_is_empty_to_readers(shop: Subject) -> None:
    shop.create("t")
    shop.insert("t", 1, 10)
    shop.snapshot()
    shop.truncate("t")
    shop.insert("t", 11, 12)
    shop.stream()
    assert [row["id"] for row in shop.fold("t")] == [11, 12]


def test_a_table_that_is_made_while_it_runs_is_captured_from_its_first_row(shop: Subject) -> None:
    shop.snapshot()
    source = open_source(shop.config())
    try:
        source.topics()
        for number, _ in enumerate(shop.followed(source)):
            if number == 0:
                shop.create("t")
                shop.insert("t", 1, 10)
            if isinstance(source, Guarded):
                source.guard()  # as a run does now and then
            if number == 1:
                shop.insert("t", 11, 20)
            if len(shop.fold("t")) == 20:
                break
    finally:
        source.close()
    assert shop.fold("t") == shop.select("t")


def test_a_table_that_is_made_again_has_no_row_of_the_one_before(shop: Subject) -> None:
    shop.create("t")
    shop.insert("t", 1, 10)
    shop.snapshot()
    shop.insert("t", 11, 20)
    shop.truncate("t") if not shop.ddl else shop.execute("DROP TABLE t")
    shop.create("t")
    shop.insert("t", 5, 7)
    shop.stream()
    shop.insert("t", 8, 9)
    shop.stream()
    assert shop.fold("t") == shop.select("t")


@needs(subject.COLUMNS)
def test_a_table_that_is_altered_goes_on_with_each_rows_own_columns(shop: Subject) -> None:
    shop.create("t")
    shop.insert("t", 1, 3)
    shop.snapshot()
    for number, (what, statements) in enumerate(shop.ddl.items()):
        shop.execute(*statements, "UPDATE t SET id = id + 10")
        if number % 2:
            shop.stream()  # with the columns of now; else those of later are in the catalogue
            assert shop.fold("t") == shop.select("t"), what
        shop.execute("DROP TABLE t")
        shop.create("t")
        shop.insert("t", 1, 3)
    shop.stream()
    assert shop.fold("t") == shop.select("t")


@needs(subject.RENAME, subject.COLUMNS)
def test_a_renamed_table_goes_on_under_its_new_name(shop: Subject) -> None:
    shop.create("t")
    shop.insert("t", 1, 5)
    shop.snapshot()
    changed = 3 if subject.ROWS_FOLLOW in shop.can else 0
    shop.execute("ALTER TABLE t RENAME TO u", f"UPDATE u SET n = n + 1 WHERE id > {changed}")
    shop.stream()
    assert shop.fold("u") == shop.select("u")


@pytest.mark.timeout(900)
def test_a_transaction_of_one_row_and_of_very_many_comes_whole(shop: Subject) -> None:
    shop.create("t")
    shop.snapshot()
    many = MANY if subject.TRANSACTIONS in shop.can else min(MANY, 100_000)
    shop.insert("t", 0, 0)
    shop.insert("t", 1, many)
    shop.stream()
    rows = [after["id"] for op, after in shop.changes("t") if op == "c"]
    assert rows == list(range(many + 1))


def test_a_large_row_comes_whole(shop: Subject) -> None:
    shop.create("t")
    large = "ü" * (6_000_000 if SOAK else 600_000)
    shop.insert("t", 1, 1, large)
    shop.snapshot()
    shop.insert("t", 2, 2, large)
    shop.set("t", 1, -1)
    shop.stream()
    rows = {row["id"]: row["s"] for row in shop.fold("t")}
    assert rows[2] == large
    assert rows[1] in (large, "__debezium_unavailable_value")


def test_a_server_that_is_killed_is_waited_for(shop: Subject) -> None:
    shop.create("t")
    shop.insert("t", 1, 10)
    shop.snapshot()
    shop.insert("t", 11, 20)
    source = open_source(shop.config())
    with pytest.raises(Interrupted):
        shop.follow(source, shop.kill)
    source.close()
    with pytest.raises(Interrupted):
        shop.stream_without_a_server()
    shop.start()
    shop.insert("t", 21, 30)
    shop.stream()
    assert shop.fold("t") == shop.select("t")
    created = [after["id"] for op, after in shop.changes("t") if op == "c"]
    assert [identity for identity in created if identity > 10] == list(range(11, 31))


def test_a_network_that_is_cut_is_an_interruption(shop: Subject) -> None:
    shop.create("t")
    shop.snapshot()
    wire = Proxy(shop.port)
    try:
        shop.insert("t", 1, 1)
        source = open_source(shop.config(port=wire.port))
        with pytest.raises(Interrupted):
            shop.follow(source, wire.close)
        source.close()
        shop.insert("t", 2, 2)
        shop.stream()
    finally:
        wire.close()
    assert [row["id"] for row in shop.fold("t")] == [1, 2]


@needs(subject.SILENCE)
def test_a_silent_network_is_noticed(shop: Subject) -> None:
    shop.options = {"silence_s": 1}
    shop.create("t")
    shop.snapshot()
    wire = Proxy(shop.port)
    try:
        source = open_source(shop.config(port=wire.port))
        with pytest.raises(Interrupted):
            shop.follow(source, wire.swallow)
        source.close()
    finally:
        wire.close()
    shop.insert("t", 1, 1)
    shop.stream()
    assert [row["id"] for row in shop.fold("t")] == [1]


def test_while_the_captured_tables_are_idle_the_position_moves(shop: Subject) -> None:
    shop.create("t")
    shop.create("other")
    shop.snapshot("t")
    begun = shop.position
    source = open_source(shop.config("t"))
    try:
        for number, _ in enumerate(shop.followed(source)):
            shop.insert("other", number, number)
            if number > 2 and shop.position != begun:
                break
    finally:
        source.close()
    assert not shop.changes("other")


def test_a_clock_that_jumps_by_years_changes_no_row(
    shop: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours, not the server's: each time it is asked it is ten years early or late."""
    wrong = itertools.cycle((-10 * YEAR_S, 10 * YEAR_S))
    right, right_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: right() + next(wrong))
    monkeypatch.setattr(time, "time_ns", lambda: right_ns() + next(wrong) * 1_000_000_000)
    shop.options = {"chunk_rows": 500} if subject.READ_AGAIN in shop.can else {}
    shop.create("t")
    shop.insert("t", 1, 1_500)
    shop.snapshot(batches=2)
    shop.set("t", 1, -1)
    shop.snapshot()
    shop.insert("t", 2_001, 2_010)
    shop.delete("t", 2)
    shop.stream()
    shop.set("t", 3, -3)
    shop.stream()
    assert shop.fold("t") == shop.select("t")


@needs(subject.RESET)
def test_a_position_that_the_server_has_forgotten_is_a_gap(shop: Subject) -> None:
    shop.create("t")
    shop.snapshot()
    shop.insert("t", 1, 5)
    shop.stream()
    shop.lose()
    shop.insert("t", 6, 6)
    with pytest.raises(Gap):
        shop.stream()


@needs(subject.PURGE)
def test_a_log_that_was_purged_is_a_gap(shop: Subject) -> None:
    shop.create("t")
    shop.snapshot()
    shop.purge()
    with pytest.raises(Gap):
        shop.stream()
