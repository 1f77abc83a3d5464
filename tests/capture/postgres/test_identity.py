"""Keys that the stream itself does not tell: deferrable ones, which two rows may have until their
transaction ends, and those of tables with REPLICA IDENTITY FULL or NOTHING."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator

import psycopg
import pytest

from headwater.capture import occupancy
from headwater.capture.postgres import assembly
from headwater.capture.source import open_source
from tests.capture.contract.postgres import Postgres
from tests.capture.postgres.server import PostgresServer


@pytest.fixture
def shop(server: PostgresServer) -> Iterator[Postgres]:
    made = Postgres(server)
    made.execute(
        "CREATE TABLE t (id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, s text)",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')",
    )
    made.snapshot()
    yield made
    made.close()


def is_as_selected(shop: Postgres, what: str = "") -> None:
    shop.stream()
    assert shop.fold("t") == shop.select("t"), what


def test_rows_that_swap_their_keys_are_both_there(shop: Postgres) -> None:
    begun = len(shop.records)
    shop.execute("UPDATE t SET id = 3 - id WHERE id < 3")
    is_as_selected(shop)
    told = [(op, row) for op, row in shop.changes("t")[3:]]
    assert told == [
        ("d", None),
        ("c", {"id": 2, "s": "a"}),
        ("u", {"id": 2, "s": "a"}),
        ("c", {"id": 1, "s": "b"}),
    ], "and nothing had to be read"
    keys = [
        key for topic, key, value in shop.records[begun:] if value is None and topic[-2:] == ".t"
    ]
    assert keys == [b'{"id":1}']


def test_rows_that_look_alike_and_swap_their_keys_are_both_there(shop: Postgres) -> None:
    shop.execute("UPDATE t SET s = 'same'")
    is_as_selected(shop)
    shop.execute("UPDATE t SET id = 3 - id WHERE id < 3")
    is_as_selected(shop)


def test_a_row_that_visits_anothers_key_takes_nothing_away(shop: Postgres) -> None:
    shop.execute(
        "BEGIN; UPDATE t SET id = 2 WHERE s = 'a'; UPDATE t SET id = 9 WHERE s = 'a'; COMMIT"
    )
    is_as_selected(shop)
    shop.execute(
        "BEGIN; UPDATE t SET id = 7 WHERE s = 'a'; UPDATE t SET id = 1 WHERE s = 'a'; COMMIT"
    )
    is_as_selected(shop, "a key that was free")


def test_a_row_that_is_deleted_after_another_took_its_key_stays_away(shop: Postgres) -> None:
    shop.execute("BEGIN; INSERT INTO t VALUES (2, 'new'); DELETE FROM t WHERE s = 'b'; COMMIT")
    is_as_selected(shop)
    shop.execute("BEGIN; INSERT INTO t VALUES (2, 'gone'); DELETE FROM t WHERE id = 2; COMMIT")
    is_as_selected(shop, "both are gone")


def test_keys_that_all_move_up_are_all_there(
    shop: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.execute("INSERT INTO t SELECT i, 'r' || i FROM generate_series(4, 500) i")
    shop.execute("UPDATE t SET id = id + 1")
    is_as_selected(shop)
    monkeypatch.setattr(occupancy, "TRANSACTION_BYTES_MAX", 5_000)
    shop.execute("UPDATE t SET id = id + 1")
    is_as_selected(shop, "more than is remembered")


def test_a_capture_that_is_killed_within_such_a_transaction_goes_on_with_it(
    shop: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembly, "TRANSACTION_BYTES_MAX", 1_000)
    shop.execute("INSERT INTO t SELECT i, 'same' FROM generate_series(4, 40) i")
    shop.execute("UPDATE t SET id = 43 - id WHERE id BETWEEN 3 AND 40")
    for _ in range(300):
        source = open_source(shop.config())
        try:
            next(batch for batch in shop.followed(source) if batch.records)
        finally:
            source.close()
        assert shop.position is not None
        if "skip" not in shop.position and len(shop.fold("t")) == 40:
            break
    is_as_selected(shop)


def test_random_transactions_leave_what_the_table_has(shop: Postgres) -> None:
    draws = random.Random(2026)
    for _ in range(150):
        steps = [_step(draws) for _ in range(draws.randint(1, 6))]
        with contextlib.suppress(psycopg.errors.UniqueViolation):
            shop.execute(f"BEGIN; {'; '.join(steps)}; COMMIT")
    is_as_selected(shop)


def test_a_key_that_was_redefined_behind_what_is_read_has_each_row_once(shop: Postgres) -> None:
    """Under FULL the stream does not tell the key: the catalogue has the later one already."""
    shop.execute(
        "CREATE TABLE u (id int PRIMARY KEY, n int)",
        "ALTER TABLE u REPLICA IDENTITY FULL",
        "INSERT INTO u VALUES (1, 1), (2, 2), (3, 3)",
    )
    shop.stream()
    shop.execute(
        "INSERT INTO u VALUES (4, 1), (5, 2)",
        "DELETE FROM u WHERE id IN (1, 5)",
        "UPDATE u SET n = 7 WHERE id = 3",
    )
    shop.redefine("u", "n")
    shop.execute("UPDATE u SET id = id + 10 WHERE n = 2")
    shop.stream()
    assert shop.fold("u") == shop.select("u")


def test_a_table_that_identifies_nothing_has_one_key_when_read_and_when_streamed(
    shop: Postgres,
) -> None:
    shop.execute("CREATE TABLE u (id int PRIMARY KEY)", "ALTER TABLE u REPLICA IDENTITY NOTHING")
    shop.execute("INSERT INTO u VALUES (1)")
    shop.stream()
    shop.execute("INSERT INTO u VALUES (2)")
    shop.stream()
    keys = [key for topic, key, _ in shop.records if topic == f"{shop.name}.u"]
    assert set(keys) == {b'{"id":1}', b'{"id":2}'}


def _step(draws: random.Random) -> str:
    key, other, text = draws.randint(1, 5), draws.randint(1, 5), draws.choice("ab")
    return draws.choice(
        [
            f"INSERT INTO t VALUES ({key}, '{text}')",
            f"DELETE FROM t WHERE id = {key}",
            f"UPDATE t SET id = {other} WHERE id = {key}",
            f"UPDATE t SET id = 6 - id WHERE id IN ({key}, {other})",
            f"UPDATE t SET s = '{text}' WHERE id = {key}",
        ]
    )
