"""What every version of PostgreSQL must give: the snapshot's rows are the stream's, and a SELECT's."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import psycopg
import pytest

from headwater.capture.config import CaptureConfig
from headwater.capture.errors import Interrupted, Misconfigured
from headwater.capture.postgres.connection import connect, translated
from headwater.capture.postgres.source import PostgresSource
from tests.capture.postgres.driven import Driven
from tests.capture.postgres.running import remove_database
from tests.capture.postgres.server import PostgresServer, postgres
from tests.capture.servers.builds import POSTGRES_14, POSTGRES_18

_numbers = itertools.count(1)


@pytest.fixture(scope="module", params=[POSTGRES_14, POSTGRES_18], ids=lambda build: build.name)
def any_version(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    with postgres(build=request.param) as running:
        yield running


class Shop(Driven):
    """A database of its own."""

    def __init__(self, server: PostgresServer) -> None:
        super().__init__(f"shop{next(_numbers)}")
        self.server = server
        server.execute(f"CREATE DATABASE {self.name}")

    def execute(self, *statements: str) -> None:
        self.server.execute(*statements, database=self.name)

    def read(self, *tables: str) -> None:
        self.snapshot(self.server, *tables)

    def follow(self, *tables: str) -> None:
        self.stream(self.server, *tables)

    def close(self) -> None:
        remove_database(self.server, self.name)


@pytest.fixture
def shop(any_version: PostgresServer) -> Iterator[Shop]:
    made = Shop(any_version)
    yield made
    made.close()


EVERY_TYPE = {
    "smallint": ("-32768", "32767"),
    "bigint": ("-9223372036854775808", "9223372036854775807"),
    "numeric": ("'NaN'", "1e100"),
    "numeric(1000,500)": ("-1e-500", "1e499"),
    "real": ("'-infinity'", "1e-45"),
    "double precision": ("'NaN'", "5e-324"),
    "boolean": ("false", "true"),
    "char(3)": ("''", "'ü'"),
    "text": ("''", "repeat('🙂\\', 3000)"),
    "bytea": ("''", "decode(repeat('00ff', 500), 'hex')"),
    "date": ("'-infinity'", "'5874897-12-31'"),
    "time": ("'00:00'", "'24:00'"),
    "timetz": ("'00:00+15:59'", "'24:00-15:59'"),
    "timestamp": ("'infinity'", "'4713-01-01 BC'"),
    "timestamptz": ("'-infinity'", "'294276-12-31 23:59:59.999999'"),
    "interval": ("'-178000000 years'", "'1 year 2 mons -3 days 04:05:06.789'"),
    "uuid": ("'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"),
    "json": ("'null'", """'{"a": [1, 1e-5, "ü"]}'"""),
    "jsonb": ("'null'", """'{"a": [1, 1e-5, "ü"]}'"""),
    "inet": ("'0.0.0.0/0'", "'::1/64'"),
    "macaddr": ("'00:00:00:00:00:00'", "'ff:ff:ff:ff:ff:ff'"),
    "money": ("-1", "92233720368547758.07"),
    "bit(3)": ("B'000'", "B'101'"),
    "varbit": ("B''", "B'1'"),
    "point": ("'(0,0)'", "'(-1.5,1e300)'"),
    "tsvector": ("''", "'a:1 b:2'"),
    "int4range": ("'empty'", "'[1,5)'"),
    "int4multirange": ("'{}'", "'{[1,3),[7,9)}'"),
    "int[]": ("'{}'", "'{{1,NULL},{-2147483648,3}}'"),
    "text[]": ("'{}'", """'{"a b",NULL,"x,y"}'"""),
    "pg_lsn": ("'0/0'", "'FFFFFFFF/FFFFFFFF'"),
    "xml": ("'<a/>'", "'<a>ü</a>'"),
}


def test_every_type_is_streamed_as_the_snapshot_reads_it(shop: Shop) -> None:
    columns = ", ".join(f"c{n} {kind}" for n, kind in enumerate(EVERY_TYPE))
    shop.execute(f"CREATE TABLE t (id int PRIMARY KEY, {columns})")
    values = [", ".join(pair[place] for pair in EVERY_TYPE.values()) for place in (0, 1)]
    values.append(", ".join("NULL" for _ in EVERY_TYPE))
    for number, given in enumerate(values):
        shop.execute(f"INSERT INTO t VALUES ({number}, {given})")
    shop.read()
    shop.execute(
        f"INSERT INTO t SELECT id + 3, {', '.join(f'c{n}' for n, _ in enumerate(EVERY_TYPE))} FROM t"
    )
    shop.follow()
    ops = [op for op, _ in shop.changes("t")]
    assert ops == ["r"] * 3 + ["c"] * 3
    rows = shop.rows("t")
    for read, streamed in zip(rows[:3], rows[3:], strict=True):
        streamed["id"] -= 3
        assert [name for name in read if read[name] != streamed[name]] == []


def test_rows_of_a_table_that_inherits_are_its_own(shop: Shop) -> None:
    shop.execute(
        "CREATE TABLE parent (id int PRIMARY KEY)",
        "CREATE TABLE child (PRIMARY KEY (id)) INHERITS (parent)",
        "CREATE TABLE whole (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE part PARTITION OF whole FOR VALUES FROM (0) TO (100)",
        *(f"INSERT INTO {name} VALUES (1)" for name in ("parent", "whole")),
        "INSERT INTO child VALUES (2)",
    )
    shop.read("parent", "child", "whole")
    shop.execute("INSERT INTO parent VALUES (3)", "INSERT INTO child VALUES (4)")
    shop.execute("INSERT INTO whole VALUES (5)")
    shop.follow("parent", "child", "whole")
    assert [row["id"] for row in shop.rows("parent")] == [1, 3]
    assert [row["id"] for row in shop.rows("child")] == [2, 4]
    assert [row["id"] for row in shop.rows("whole")] == [1, 5]


@pytest.mark.parametrize("way", ["none", "stored", "listed"])
def test_generated_columns_are_read_where_they_are_published(shop: Shop, way: str) -> None:
    published = {"none": "", "stored": "WITH (publish_generated_columns = stored)", "listed": ""}
    if way != "none" and int(shop.server.execute("SHOW server_version_num")[0][0]) < 180000:
        pytest.skip("before PostgreSQL 18 no publication has generated columns")
    virtual = ", v int GENERATED ALWAYS AS (n + 1) VIRTUAL" if way != "none" else ""
    listed = "(id, g)" if way == "listed" else ""
    shop.options = {"publication": "own"}
    shop.execute(
        f"CREATE TABLE t (id int PRIMARY KEY, n int, g int GENERATED ALWAYS AS (n * 2) STORED{virtual})",
        f"CREATE PUBLICATION own FOR TABLE t {listed} {published[way]}",
        "INSERT INTO t VALUES (1, 5)",
    )
    shop.read()
    shop.execute("INSERT INTO t VALUES (2, 5)")
    shop.follow()
    read, streamed = shop.rows("t")
    wanted = {"none": {"n": 5}, "stored": {"n": 5, "g": 10}, "listed": {"g": 10}}
    assert ({**read, "id": 2}, streamed) == (streamed, {"id": 2, **wanted[way]})
    schemas = [value for topic, _, value in shop.records if topic.endswith("schema-changes")]
    assert len(schemas) == 1, "the stream has the columns that the snapshot had"


def test_no_time_out_of_the_server_ends_a_snapshot(shop: Shop) -> None:
    names = ["statement_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout"]
    newer = "SELECT name FROM pg_settings WHERE name = 'transaction_timeout'"
    names += [name for (name,) in shop.server.execute(newer)]
    shop.execute(*(f"ALTER DATABASE {shop.name} SET {name} = '1min'" for name in names))
    connection = connect(shop.server.url(shop.name))
    try:
        found = [connection.execute(f"SHOW {name}".encode()).fetchone() for name in names]
    finally:
        connection.close()
    assert found == [("0",)] * len(names)


@pytest.mark.parametrize("error", [
    psycopg.errors.ReadOnlySqlTransaction,
    psycopg.errors.lookup("25P03"),
    psycopg.errors.AdminShutdown,
    psycopg.errors.TooManyConnections,
])  # fmt: skip
def test_what_time_mends_is_an_interruption(error: type[psycopg.Error]) -> None:
    assert isinstance(translated(error("not now")), Interrupted)


def test_a_publication_of_another_role_stays_and_that_is_said(shop: Shop) -> None:
    role = f"reader_{shop.name}"
    shop.execute(
        "CREATE TABLE t (id int PRIMARY KEY)",
        f"CREATE ROLE {role} LOGIN REPLICATION",
        f"GRANT SELECT ON t TO {role}",
        f"CREATE PUBLICATION headwater_{shop.name} FOR TABLE t",
    )
    url = shop.server.url(shop.name, role)
    source = PostgresSource(CaptureConfig(shop.name, url, transactions=False))
    try:
        next(source.snapshot(None))
        slots = f"SELECT count(*) FROM pg_replication_slots WHERE database = '{shop.name}'"
        assert shop.server.execute(slots) == [(1,)]
        stays = source.forget()
        assert stays is not None and "belongs to postgres, and stays: DROP PUBLICATION" in stays
        assert shop.server.execute(slots) == [(0,)]
    finally:
        source.close()
        shop.execute(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def test_a_published_table_whose_updates_the_server_now_refuses_is_told_of(shop: Shop) -> None:
    shop.execute(
        "CREATE TABLE bare (id int)",
        "CREATE TABLE keyed (id int PRIMARY KEY)",
        "CREATE TABLE late (id int PRIMARY KEY DEFERRABLE)",
        "INSERT INTO late VALUES (1)",
    )
    source = PostgresSource(shop.config(shop.server))
    try:
        source.topics()
        said = source.guard()
        assert said is not None and 'ALTER TABLE "public"."bare" REPLICA IDENTITY FULL' in said
        said = source.guard()
        assert said is not None and 'ALTER TABLE "public"."late" REPLICA IDENTITY FULL' in said
        assert source.guard() is None
        failed = [finding.name for finding in source.check() if not finding.ok]
        assert failed == [f'identity of "public"."{table}"' for table in ("bare", "late")]
        read = [record for batch in source.snapshot(None) for record in batch.records]
        # As the stream has it, to which the server says of no column that it identifies a row.
        assert [record[1] for record in read if record[0] == f"{shop.name}.late"] == [None]
    finally:
        source.close()


def test_partitions_have_topics_of_their_own_where_that_is_asked_for(shop: Shop) -> None:
    shop.options = {"partitions_as": "leaf"}
    shop.execute(
        "CREATE TABLE whole (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE low PARTITION OF whole FOR VALUES FROM (0) TO (100)",
        "CREATE TABLE high PARTITION OF whole FOR VALUES FROM (100) TO (200)",
        "INSERT INTO whole VALUES (1), (100)",
    )
    shop.read("whole")
    shop.execute("INSERT INTO whole VALUES (2), (101)")
    shop.follow("whole")
    assert [row["id"] for row in shop.rows("low")] == [1, 2]
    assert [row["id"] for row in shop.rows("high")] == [100, 101]
    assert shop.rows("whole") == []
    shop.options = {"partitions_as": "root"}
    with pytest.raises(Misconfigured, match="by leaf, and partitions_as says otherwise"):
        shop.read("whole")


@pytest.mark.parametrize(
    ("made", "why"),
    [
        ("CREATE UNLOGGED TABLE t (id int PRIMARY KEY)", "is an unlogged table"),
        ("CREATE VIEW t AS SELECT 1 AS id", "is a view"),
        ("CREATE TABLE w (id int) PARTITION BY RANGE (id)", "has no table public.t"),
        (
            "CREATE TABLE w (id int) PARTITION BY RANGE (id); "
            "CREATE TABLE t PARTITION OF w FOR VALUES FROM (0) TO (9)",
            "is a partition of w",
        ),
    ],
)
def test_what_has_no_changes_of_its_own_is_refused_in_words(
    shop: Shop, made: str, why: str
) -> None:
    shop.execute(made)
    with pytest.raises(Misconfigured, match=why):
        shop.read("t")
