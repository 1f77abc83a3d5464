"""What a publication does not send: of tables that were not in it for a while, or that it leaves out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headwater.capture.source import Guarded, open_source
from tests.capture.contract.postgres import Postgres
from tests.capture.postgres.server import PostgresServer, postgres
from tests.capture.servers.builds import POSTGRES_18


@pytest.fixture(scope="module")
def newest() -> Iterator[PostgresServer]:
    with postgres(build=POSTGRES_18) as running:
        yield running


@pytest.fixture
def shop(newest: PostgresServer) -> Iterator[Postgres]:
    made = Postgres(newest)
    made.create("t")
    made.insert("t", 1, 3)
    yield made
    made.close()


def test_a_publication_that_was_dropped_for_a_while_leaves_no_gap(shop: Postgres) -> None:
    """From PostgreSQL 18 on the server goes on without it, and sends nothing."""
    shop.execute("CREATE TABLE keyless (n int)", "ALTER TABLE keyless REPLICA IDENTITY FULL")
    shop.snapshot()
    shop.execute(
        f"DROP PUBLICATION headwater_{shop.name}",
        "DELETE FROM t WHERE id = 1",
        "UPDATE t SET n = -n",
    )
    shop.stream()  # which finds it missing
    shop.stream()
    assert shop.fold("t") == shop.select("t")
    assert shop.changes("keyless") == [], "what cannot be read again is not taken away"


@pytest.mark.parametrize(
    ("first", "then", "wanted"),
    [
        ("TABLE mark, t", ("DROP TABLE t", "ADD TABLE t"), [2, 3]),
        ("TABLE mark, t WHERE (id < 3)", ("SET TABLE mark, t WHERE (id > 2)",), [3]),
    ],
)
def test_a_table_that_is_published_otherwise_is_read_from_its_first_row(
    shop: Postgres, first: str, then: tuple[str, ...], wanted: list[int]
) -> None:
    shop.options = {"publication": "own"}
    shop.execute(f"CREATE PUBLICATION own FOR {first}")
    shop.snapshot()
    shop.stream()
    out, *back = (f"ALTER PUBLICATION own {change}" for change in then)
    shop.execute(out, "DELETE FROM t WHERE id = 1", *back)
    shop.stream()
    shop.stream()
    assert [row["id"] for row in shop.fold("t")] == wanted
    shop.stream()
    assert [op for op, _ in shop.changes("t")].count("t") == 1


def test_a_partition_that_was_none_for_a_while_is_read_with_what_was_done_to_it(
    shop: Postgres,
) -> None:
    shop.execute(
        "CREATE TABLE p (id int PRIMARY KEY, n int, s text) PARTITION BY RANGE (id)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)",
        "INSERT INTO p VALUES (1, 1, 'x'), (2, 2, 'x')",
    )
    shop.snapshot()
    shop.execute(
        "ALTER TABLE p DETACH PARTITION p1", "UPDATE p1 SET n = 9", "DELETE FROM p1 WHERE id = 2",
        "ALTER TABLE p ATTACH PARTITION p1 FOR VALUES FROM (0) TO (10)",
    )  # fmt: skip
    shop.stream()
    shop.stream()
    assert shop.fold("p") == shop.select("p")


def test_a_publication_that_leaves_out_deletes_is_told(shop: Postgres) -> None:
    shop.options = {"publication": "own"}
    shop.execute("CREATE PUBLICATION own FOR TABLE t WITH (publish = 'insert, update')")
    source = open_source(shop.config("t"))
    try:
        (found,) = (finding for finding in source.check() if finding.name == "what is published")
        source.topics()
        assert isinstance(source, Guarded)
        assert "does not send delete, truncate" in (source.guard() or "")
    finally:
        source.close()
    assert not found.ok and "does not send delete, truncate" in found.sentence
