"""Views in PostgreSQL: what every target must do, and what only this one does."""

from __future__ import annotations

import itertools

import pytest

from headwater.testing.targets import ADA, BOB, CAT, Conformance, Make, Writer, gone, rows_of, shape
from headwater.views.registry import target_for
from headwater.views.target import Kind, Misfit, RowsRefused, Unavailable
from tests.capture.postgres.server import PostgresServer


@pytest.fixture
def make(database: str) -> Make:
    return lambda given: target_for(database, given)


class TestConformance(Conformance):
    @pytest.fixture
    def make(self, database: str) -> Make:
        return lambda given: target_for(database, given)


def run(server: PostgresServer, database: str, *statements: str) -> list[tuple[object, ...]]:
    return server.execute(*statements, database=database.rpartition("/")[2])


def staging_tables(server: PostgresServer, database: str) -> list[tuple[object, ...]]:
    return run(
        server, database, "SELECT relname FROM pg_class WHERE relname LIKE 'headwater_stage%'"
    )


def test_rows_of_a_wrong_type_length_or_without_a_value_are_refused_and_the_rest_goes_on(
    server: PostgresServer, database: str, make: Make
):
    run(
        server,
        database,
        "CREATE TABLE customers (id smallint PRIMARY KEY, name varchar(5) NOT NULL, "
        "total numeric(5, 2) CHECK (total < 100))",
    )
    writer = Writer(make(shape()))
    good = [(n, "ok", None) for n in range(100, 400)]
    bad = [(99_999, "ok", 1.0), (1, "too long", 1.0), (2, None, 1.0), (3, "dear", 100.0),
           (4, "nul\x00", 1.0)]  # fmt: skip
    mixed = [*good[:77], bad[0], *good[77:150], bad[1], bad[2], *good[150:], bad[3], bad[4]]
    refused = writer.write(0, mixed)
    assert [mixed[each.number] for each in refused] == bad
    reasons = [each.reason for each in refused]
    for said, wanted in zip(
        reasons,
        ["out of range", "too long for type", "not-null", "customers_total_check", "0x00"],
        strict=True,
    ):
        assert wanted in said
    assert rows_of(writer.target) == good  # as the view has them, whatever the table's types
    # A deleted row has only its key: what its other columns must be does not matter then.
    writer.write(1, [gone(n) for n in range(100, 399)])
    assert run(server, database, "SELECT id FROM customers") == [(399,)]


def test_rows_that_break_unique_and_foreign_keys_are_refused_when_they_are_to_count(
    server: PostgresServer, database: str, make: Make
):
    run(
        server,
        database,
        "CREATE TABLE customers (id bigint PRIMARY KEY, name text UNIQUE, total double precision)",
        "CREATE TABLE orders (customer bigint REFERENCES customers)",
    )
    writer = Writer(make(shape()))
    writer.write(0, [ADA, BOB])
    run(server, database, "INSERT INTO orders VALUES (1)")
    staged = [writer.stage(1, 0, [(5, "Bob", 0.0), (6, "Fay", 0.0)]), writer.stage(1, 1, [gone(1)])]
    with pytest.raises(RowsRefused) as raised:
        writer.commit(1, staged)
    told = {(each.part, each.number, each.row) for each in raised.value.refusals}
    assert told == {(0, 0, '{"id":5,"name":"Bob","total":0.0}'), (1, 0, '{"id":1}')}
    applied = writer.target.applied()
    assert applied is not None and applied.batch == 0
    writer.commit(1, staged)
    assert rows_of(writer.target) == [ADA, BOB, (6, "Fay", 0.0)]
    assert staging_tables(server, database) == []


def test_a_server_that_crashed_since_staging_makes_the_batch_come_again(database: str, make: Make):
    from tests.capture.postgres.server import postgres

    with postgres({"wal_level": "replica"}) as own:
        target = target_for(own.url(), shape())
        writer = Writer(target)
        writer.write(0, [ADA])
        parts = [writer.stage(1, 0, [BOB]), writer.stage(1, 1, [gone(1)])]
        own.kill()
        with pytest.raises(Unavailable):
            writer.commit(1, parts)
        own.start()
        with pytest.raises(Unavailable):
            writer.commit(1, parts)
        assert rows_of(target) == [ADA]
        again = Writer(target_for(own.url(), shape()))
        again.write(1, [BOB], [gone(1)])
        assert rows_of(target) == [BOB]


def test_a_history_of_many_versions_in_one_batch_is_that_of_one_by_one(make: Make, database: str):
    import datetime as dt
    import random

    random.seed(7)
    begin = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    rows = [
        (random.randrange(5), random.choice(["a", "b", None]), None, random.random() < 0.2,
         begin + dt.timedelta(hours=random.randrange(1000)))
        for _ in range(300)
    ]  # fmt: skip
    many = Writer(make(shape(Kind.HISTORY)))
    cuts = [0, 3, 50, 51, 200, 300]
    for batch, (start, end) in enumerate(itertools.pairwise(cuts)):
        some = rows[start:end]
        many.write(batch, [r for r in some if r[0] % 2], [r for r in some if not r[0] % 2])
    single = Writer(make(shape(Kind.HISTORY, view="single")))
    for batch, row in enumerate(rows[:50]):
        single.write(batch, [row])
    few = Writer(make(shape(Kind.HISTORY, view="few")))
    few.write(0, rows[:50])
    assert rows_of(few.target) == rows_of(single.target)
    for key in range(5):
        own = [row for row in rows_of(many.target) if row[0] == key]
        versions = sorted(
            own, key=lambda row: (row[3], row[4] or dt.datetime.max.replace(tzinfo=dt.UTC))
        )
        assert [row[5] for row in versions[:-1]] == [False] * (len(versions) - 1)
        assert all(one[4] <= next_[3] for one, next_ in itertools.pairwise(versions))


def test_a_table_with_rows_of_somebody_else_is_left_alone(
    server: PostgresServer, database: str, make: Make
):
    columns = "(id bigint, name text, total double precision)"
    run(server, database, f"CREATE TABLE customers {columns}", "INSERT INTO customers VALUES (1)")
    with pytest.raises(Misfit, match="rows that are not of the view"):
        make(shape()).create()


def test_the_address_says_in_which_schema_a_view_lives(server: PostgresServer, database: str):
    run(server, database, "CREATE SCHEMA analytics")
    target = target_for(f"{database}?options=-csearch_path%3Danalytics", shape())
    Writer(target).write(0, [ADA, CAT])
    found = run(server, database, "SELECT id, name, total FROM analytics.customers ORDER BY id")
    assert found == [ADA, CAT]
    assert rows_of(target) == [ADA, CAT]


def test_a_server_that_is_away_is_unavailable():
    target = target_for("postgresql://nobody@127.0.0.1:1/nothing", shape())
    for ask in (target.create, target.applied, target.claim):
        with pytest.raises(Unavailable):
            ask()


def test_what_tasks_left_behind_is_removed_by_the_next_commit(
    server: PostgresServer, database: str, make: Make
):
    writer = Writer(make(shape()))
    writer.stage(0, 0, [ADA])
    writer.stage(0, 1, [gone(1), BOB])
    correction = writer.stage(-1, 0, [CAT])
    writer.write(0, [BOB])
    assert staging_tables(server, database) == [(correction.place.split(":")[0],)]
