"""A rebuild in PostgreSQL that readers do not notice: what they put on the table is on the next one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from headwater.testing.targets import ADA, BOB, SCHEMA, Make, Writer, rows_of, shape
from headwater.views.targets.contract import Kind, Misfit, Target, Unavailable
from headwater.views.targets.registry import target_for
from tests.capture.postgres.server import PostgresServer

Run = Callable[..., list[Any]]


@pytest.fixture
def make(database: str) -> Make:
    return lambda given: target_for(database, given)


@pytest.fixture
def run(server: PostgresServer, database: str) -> Run:
    def run(*statements: str) -> list[Any]:
        return server.execute(*statements, database=database.rpartition("/")[2])

    run("DO $$ BEGIN CREATE ROLE reader; CREATE ROLE clerk; CREATE ROLE boss; "
        "EXCEPTION WHEN duplicate_object THEN NULL; END $$")  # fmt: skip
    return run


def rebuilt(make: Make, *rows: Any, **more: Any) -> tuple[Target, list[str]]:
    """A second version with these rows, which readers see from now on; what it left behind."""
    second = make(shape(version=2, **more))
    Writer(second).write(0, rows)
    return second, list(second.switch() or ())


def as_role(database: str, role: str, statement: str) -> list[Any]:
    with psycopg.connect(database) as connection:
        connection.execute(f"SET ROLE {role}")
        return connection.execute(statement.encode()).fetchall()


def test_who_may_read_a_view_may_read_the_next_version_and_nobody_else(
    make: Make, run: Run, database: str
):
    Writer(make(shape())).write(0, [ADA])
    run(
        "GRANT SELECT ON customers TO reader WITH GRANT OPTION",
        "GRANT SELECT (id, name) ON customers TO clerk",
        "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO boss",
    )
    _, lost = rebuilt(make, BOB)
    assert lost == []
    assert as_role(database, "reader", "SELECT id FROM customers") == [(2,)]
    assert as_role(database, "clerk", "SELECT name FROM customers") == [("Bob",)]
    for role, asked in [("clerk", "SELECT total FROM customers"), ("boss", "TABLE customers")]:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_role(database, role, asked)
    run("REVOKE SELECT ON customers FROM reader")
    make(shape()).switch()  # back: who has lost a right since has not got it again
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_role(database, "reader", "SELECT id FROM customers")


def test_owner_policies_comments_and_triggers_go_over(make: Make, run: Run, database: str):
    Writer(make(shape())).write(0, [ADA, BOB])
    run(
        "ALTER TABLE customers OWNER TO boss",
        "ALTER TABLE customers ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY bobs ON customers FOR SELECT TO reader USING (name = 'Bob')",
        "GRANT SELECT ON customers TO reader",
        "COMMENT ON TABLE customers IS 'who buys''s here'",
        "COMMENT ON COLUMN customers.name IS 'first name'",
        "CREATE TABLE seen (id bigint)",
        "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN INSERT INTO public.seen VALUES (NEW.id); RETURN NULL; END $$",
        "CREATE TRIGGER note AFTER INSERT ON customers FOR EACH ROW EXECUTE FUNCTION note()",
    )
    second, lost = rebuilt(make, ADA, BOB)
    assert lost == []
    assert as_role(database, "reader", "SELECT id FROM customers") == [(2,)]
    assert run("SELECT tableowner, obj_description('customers'::regclass), "
               "col_description('customers'::regclass, 2) FROM pg_tables "
               "WHERE tablename = 'customers'") == [("boss", "who buys's here", "first name")]  # fmt: skip
    assert run("SELECT id FROM seen") == []  # what was built before fired nothing
    Writer(second).write(1, [(3, "Cat", None)])
    assert run("SELECT id FROM seen") == [(3,)]


def test_indexes_and_rules_made_by_hand_are_on_the_next_version_under_their_names(
    make: Make, run: Run
):
    Writer(make(shape())).write(0, [ADA])
    run(
        'CREATE INDEX "by Name" ON customers (lower(name)) WHERE total > 0',
        "ALTER TABLE customers ADD CONSTRAINT named UNIQUE (name)",
        "ALTER TABLE customers ADD CONSTRAINT dear CHECK (total < 100)",
        "ALTER TABLE customers ALTER name SET NOT NULL",
    )
    asked = (
        "SELECT indexname, replace(indexdef, '__v1', '') FROM pg_indexes "
        "WHERE tablename = 'customers' ORDER BY 1"
    )
    before = run(asked)
    assert len(before) == 3
    second = make(shape(version=2))
    refused = Writer(second).write(0, [ADA, (7, "dear", 100.0), (8, None, 1.0)])
    assert [each.number for each in refused] == [1, 2]
    assert second.switch() == []
    assert run(asked) == before
    make(shape()).switch()
    assert run(asked) == before


def test_views_that_people_made_read_the_next_version_and_keep_their_own_readers(
    make: Make, run: Run, database: str
):
    Writer(make(shape())).write(0, [ADA])
    run(
        "CREATE VIEW names WITH (security_barrier = true) AS SELECT * FROM customers",
        "CREATE VIEW loud AS SELECT upper(name) AS name FROM names",
        "GRANT SELECT ON loud TO reader",
    )
    _, lost = rebuilt(make, BOB)
    assert lost == []
    assert as_role(database, "reader", "SELECT name FROM loud") == [("BOB",)]
    assert run("SELECT reloptions FROM pg_class WHERE relname = 'names'") == [
        (["security_barrier=true"],)
    ]
    make(shape()).drop()
    assert as_role(database, "reader", "SELECT name FROM loud") == [("BOB",)]


def test_a_view_that_cannot_read_the_next_version_keeps_the_switch_from_happening(
    make: Make, run: Run
):
    Writer(make(shape())).write(0, [ADA])
    run("CREATE VIEW totals AS SELECT sum(total) AS total FROM customers")
    narrow = SCHEMA.remove(SCHEMA.get_field_index("total"))
    second = make(shape(version=2, schema=narrow))
    Writer(second).write(0, [(2, "Bob")])
    with pytest.raises(Misfit, match=r"the view public\.totals reads the version before") as raised:
        second.switch()
    assert raised.value.hint is not None
    assert (second.current(), run("SELECT total FROM totals")) == (1, [(1.5,)])
    run("DROP VIEW totals")
    second.switch()
    assert run("SELECT id FROM customers") == [(2,)]


def test_what_stays_with_the_old_version_is_named_and_keeps_it_from_being_dropped(
    make: Make, run: Run
):
    Writer(make(shape())).write(0, [ADA])
    run(
        "CREATE MATERIALIZED VIEW summed AS SELECT sum(total) FROM customers",
        "CREATE TABLE orders (customer bigint CONSTRAINT whose REFERENCES customers)",
        "INSERT INTO orders VALUES (1)",
    )
    _, lost = rebuilt(make, ADA, BOB)
    assert any("materialized view public.summed still reads" in each for each in lost)
    assert any("foreign key whose of public.orders" in each for each in lost)
    run("ALTER TABLE orders VALIDATE CONSTRAINT whose", "INSERT INTO orders VALUES (2)")
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        run("INSERT INTO orders VALUES (9)")
    with pytest.raises(Misfit, match="customers__v1 is still needed by materialized view summed"):
        make(shape()).drop()
    run("DROP MATERIALIZED VIEW summed")
    make(shape()).drop()
    assert make(shape(version=2)).versions().keys() == {2}


def test_types_that_somebody_chose_stay_and_types_that_changed_do_not(make: Make, run: Run):
    run(
        "CREATE TABLE customers (id smallint PRIMARY KEY, name varchar(5), total double precision)",
        "CREATE VIEW short AS SELECT id, name FROM customers",
    )
    Writer(make(shape())).write(0, [ADA])
    total = SCHEMA.get_field_index("total")
    wide = SCHEMA.set(total, SCHEMA.field(total).with_type(pa.string()))
    rebuilt(make, (2, "Bob", "two"), schema=wide)
    assert run("SELECT pg_typeof(id)::text, pg_typeof(name)::text, total FROM customers") == [
        ("smallint", "character varying", "two")
    ]
    assert run("SELECT id, name FROM short") == [(2, "Bob")]


def test_a_history_goes_over_with_its_indexes_and_back(make: Make, run: Run):
    Writer(make(shape(Kind.HISTORY))).write(0, [])
    run("CREATE VIEW now AS SELECT id FROM customers WHERE current")
    second = make(shape(Kind.HISTORY, version=2))
    Writer(second)
    assert second.switch() == []
    assert make(shape(Kind.HISTORY)).switch() == []
    second.drop()
    third = make(shape(Kind.HISTORY, version=3))
    Writer(third)
    assert third.switch() == []


def test_a_switch_gives_way_to_a_long_query_and_says_so(
    make: Make, database: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("headwater.views.targets.postgres.switch.LOCK_MS", 50)
    monkeypatch.setattr("headwater.views.targets.postgres.target.SWITCH_S", 0.1)
    Writer(make(shape())).write(0, [ADA])
    second = make(shape(version=2))
    Writer(second).write(0, [BOB])
    with psycopg.connect(database) as reader:
        assert reader.execute("SELECT id FROM customers").fetchall() == [(1,)]
        with pytest.raises(Unavailable, match="lock timeout"):
            second.switch()
        assert reader.execute("SELECT id FROM customers").fetchall() == [(1,)]
    with make(shape()).reading() as (applied, rows):  # what verify reads is of one version
        with pytest.raises(Unavailable, match="lock timeout"):
            second.switch()
        assert applied is not None
        assert [row["name"] for batch in rows for row in batch.to_pylist()] == ["Ada"]
    second.switch()
    assert rows_of(make(shape(version=2))) == [BOB]


def test_a_view_that_the_first_release_has_rebuilt_goes_on(make: Make, run: Run):
    """Its dependent view is on the frozen version, and its book says nothing of shapes."""
    Writer(make(shape())).write(0, [ADA])
    second = Writer(make(shape(version=2)))
    second.write(0, [BOB])
    run(
        "CREATE VIEW names AS SELECT name FROM customers",
        "ALTER TABLE customers RENAME TO customers__v1",
        "ALTER TABLE customers__v2 RENAME TO customers",
        "UPDATE headwater_views SET place = CASE version WHEN 1 THEN 'customers__v1' "
        "ELSE 'customers' END, current = (version = 2)",
        "ALTER TABLE headwater_views DROP COLUMN shape",
    )
    with pytest.raises(Misfit, match="customers__v1 is still needed by view names"):
        make(shape()).drop()
    third = make(shape(version=3))
    Writer(third).write(0, [ADA, BOB])
    assert third.switch() == []
    assert run("SELECT id FROM customers ORDER BY id") == [(1,), (2,)]


def test_a_role_that_is_no_superuser_rebuilds_its_own_view_and_is_told_of_anothers(
    server: PostgresServer, database: str, run: Run
):
    run(
        "DO $$ BEGIN CREATE ROLE writer LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$",
        "GRANT CREATE ON SCHEMA public TO writer",
    )
    own = server.url(database.rpartition("/")[2], user="writer")
    first, second = target_for(own, shape()), target_for(own, shape(version=2))
    Writer(first).write(0, [ADA])
    with psycopg.connect(own) as connection:
        connection.execute("GRANT SELECT ON customers TO reader")
        connection.execute("CREATE INDEX by_name ON customers (name)")
        connection.execute("CREATE VIEW names AS SELECT name FROM customers")
    Writer(second).write(0, [BOB])
    assert second.switch() == []
    assert run("SELECT name FROM names") == [("Bob",)]
    assert as_role(database, "reader", "SELECT name FROM customers") == [("Bob",)]
    run("CREATE VIEW another AS SELECT name FROM customers")
    with pytest.raises(Misfit, match=r"the view public\.another .*must be owner"):
        first.switch()
    assert first.current() == 2
