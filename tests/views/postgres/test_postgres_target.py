"""Views in PostgreSQL: what every target must do, and what only this one does."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

from headwater.testing.target_columns import WideningConformance
from headwater.testing.targets import (
    ADA,
    BOB,
    CAT,
    Make,
    TargetConformance,
    Writer,
    gone,
    rows_of,
    shape,
)
from headwater.views.targets.contract import Kind, Misfit, RowsRefused, Unavailable
from headwater.views.targets.registry import target_for
from tests.capture.postgres.server import PostgresServer


@pytest.fixture
def make(database: str) -> Make:
    return lambda given: target_for(database, given)


class TestConformance(TargetConformance, WideningConformance):
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


def test_a_table_that_takes_two_keys_for_one_is_refused(
    server: PostgresServer, database: str, make: Make
):
    run(
        server,
        database,
        "CREATE COLLATION any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
        "CREATE TABLE customers (id bigint, name text COLLATE any_case PRIMARY KEY, "
        "total double precision)",
    )
    with pytest.raises(Misfit, match="takes texts that differ for one key in name"):
        Writer(make(shape(key=("name",))))


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


def test_a_table_of_another_view_is_refused_also_further_down_the_search_path(
    make: Make, server: PostgresServer, database: str
):
    writer = Writer(make(shape(view="one", options={"table": "t"})))
    with pytest.raises(Misfit, match="holds the view 'one'"):
        make(shape(view="two", options={"table": "t"})).create()
    with pytest.raises(Misfit, match="holds the view 'one'"):
        make(shape(view="t__v2")).create()
    with pytest.raises(Misfit, match="not for views"):
        make(shape(view="headwater_views")).create()
    make(shape(view="T")).create()  # PostgreSQL tells small from large letters
    run(server, database, "CREATE SCHEMA s")
    elsewhere = f"{database}?options=-csearch_path%3Ds,public"
    with pytest.raises(Misfit, match="holds the view 'one'"):
        target_for(elsewhere, shape(view="two", options={"table": "t"})).create()
    writer.write(0, [ADA])
    assert rows_of(writer.target) == [ADA]
    with pytest.raises(Misfit, match="too long"):
        make(shape(view="x" * 51)).create()


def test_a_time_that_could_not_be_read_back_is_refused(make: Make):
    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    target = make(shape(schema=schema))
    writer = Writer(target)
    far = pa.array([0, 253_402_300_800_000_000], pa.int64()).cast(schema.field("at").type)
    rows = pa.table({"id": [1, 2], "at": far, "_deleted": [False, False]})
    part = target.stage(0, 0, iter(rows.to_batches()))
    assert [each.reason for each in part.refused] == ["at is not between the years 1 and 9999"]
    writer.commit(0, [part])
    assert [row[0] for row in rows_of(target)] == [1]


def test_what_does_not_pass_is_not_waited_for(server: PostgresServer, database: str, make: Make):
    writer = Writer(make(shape()))
    writer.write(0, [ADA])
    part = writer.stage(1, 0, [BOB])
    run(server, database, "ALTER TABLE customers DROP COLUMN total")
    for attempt in (lambda: writer.commit(1, [part]), lambda: writer.stage(1, 0, [BOB])):
        with pytest.raises(Misfit, match="total") as raised:
            attempt()
        assert raised.value.hint is not None and "headwater rebuild customers" in raised.value.hint
    with pytest.raises(Misfit, match="it has no column total"):
        make(shape()).create()
    run(server, database, "DROP TABLE customers")
    with pytest.raises(Misfit, match="customers"):
        writer.commit(1, [part])
    with pytest.raises(Misfit, match="does not exist") as raised:
        target_for(server.url("nowhere"), shape()).create()
    assert raised.value.hint is not None and "role" in raised.value.hint
