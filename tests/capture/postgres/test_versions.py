"""What every version of PostgreSQL must give: the snapshot's rows are the stream's, and a SELECT's."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from headwater.capture.config import CaptureConfig
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
    shop.execute("CREATE TABLE bare (id int)", "CREATE TABLE keyed (id int PRIMARY KEY)")
    source = PostgresSource(shop.config(shop.server))
    try:
        source.topics()
        said = source.guard()
        assert said is not None and 'ALTER TABLE "public"."bare" REPLICA IDENTITY FULL' in said
        assert source.guard() is None
    finally:
        source.close()
