"""PostgreSQL under the contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import quote

from tests.capture.contract import subject
from tests.capture.contract.columns import WithColumns
from tests.capture.contract.subject import Row, Type
from tests.capture.postgres.running import remove_database
from tests.capture.postgres.server import PostgresServer

_TEXT = "to_json(c::text)::text"
_SAME = "to_json(c)::text"
_TEXTS = "to_json(c::text[])::text"
_BYTES = "to_json(replace(encode(c, 'base64'), chr(10), ''))::text"
_DAYS = """to_json(CASE WHEN c = 'infinity' THEN 2147483647 WHEN c = '-infinity' THEN -2147483648
 ELSE c - date '1970-01-01' END)::text"""
_CLOCK_US = "to_json((extract(epoch FROM c) * 1000000)::int8)::text"
_MOMENT_US = """to_json(CASE WHEN c = 'infinity' THEN 9223372036825200000
 WHEN c = '-infinity' THEN -9223372036832400000
 ELSE (extract(epoch FROM date_trunc('second', c))::numeric * 1000000
       + extract(microseconds FROM c)::int8 % 1000000)::int8 END)::text"""
_ZONED = """to_json(CASE WHEN NOT isfinite(c) THEN c::text WHEN extract(microseconds FROM c)::int8
 % 1000000 = 0 THEN to_char(c AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
 ELSE to_char(c AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') END)::text"""

TYPES: tuple[Type, ...] = (
    ("smallint", ("-32768", "32767"), _SAME),
    ("integer", ("-2147483648", "2147483647"), _SAME),
    ("bigint", ("-9223372036854775808", "9223372036854775807"), _SAME),
    ("oid", ("0", "4294967295"), "to_json(c::int8)::text"),
    ("numeric", ("'NaN'", "1e100", "-0.000000000000000000000000000001"), _TEXT),
    ("numeric(1000,500)", ("-1e-500", "1e499"), _TEXT),
    ("real", ("'-infinity'", "1.17549e-38", "3.4028235e38"), _SAME),
    ("double precision", ("'NaN'", "5e-324", "1.7976931348623157e308", "'infinity'"), _SAME),
    ("boolean", ("false", "true"), _SAME),
    ("char(3)", ("''", "'ü'"), "to_json(rpad(c::text, 3))::text"),
    ("varchar(10)", ("''", "'🙂\\\"'"), _TEXT),
    ("text", ("''", "repeat('🙂\\', 3000)", "E'\\x01\\t\\n\"'"), _TEXT),
    ("name", ("'n'",), _TEXT),
    ('"char"', ("'a'",), _TEXT),
    ("bytea", ("''", "decode(repeat('00ff', 500), 'hex')"), _BYTES),
    ("date", ("'-infinity'", "'infinity'", "'5874897-12-31'", "'4713-01-01 BC'"), _DAYS),
    ("time", ("'00:00'", "'24:00'", "'23:59:59.999999'"), _CLOCK_US),
    ("timestamp", ("'infinity'", "'4713-01-01 BC'", "'294246-12-31 23:59:59.999999'"), _MOMENT_US),
    ("timestamptz", ("'-infinity'", "'2026-11-15 13:00:00.125+02'", "'0001-01-01 00:00:00+00'"), _ZONED),
    ("timetz", ("'00:00+15:59'", "'24:00-15:59'"), ""),
    ("interval", ("'-178000000 years'", "'1 year 2 mons -3 days 04:05:06.789'"), ""),
    ("uuid", ("'00000000-0000-0000-0000-000000000000'",
              "'ffffffff-ffff-ffff-ffff-ffffffffffff'"), _TEXT),
    ("json", ("'null'", """'{"a": [1, 1e-5, "ü"]}'"""), _TEXT),
    ("jsonb", ("'null'", """'{"a": [1, 1e-5, "ü"]}'"""), _TEXT),
    ("xml", ("'<a/>'", "'<a>ü</a>'"), _TEXT),
    ("inet", ("'0.0.0.0/0'", "'::1/64'"), _TEXT),
    ("cidr", ("'10.0.0.0/8'",), _TEXT),
    ("macaddr", ("'00:00:00:00:00:00'", "'ff:ff:ff:ff:ff:ff'"), _TEXT),
    ("macaddr8", ("'08:00:2b:01:02:03:04:05'",), _TEXT),
    ("money", ("-1", "92233720368547758.07"), _TEXT),
    ("bit(3)", ("B'000'", "B'101'"), _TEXT),
    ("varbit", ("B''", "B'1'"), _TEXT),
    ("point", ("'(0,0)'", "'(-1.5,1e300)'"), _TEXT),
    ("line", ("'{1,-1,0}'",), _TEXT),
    ("lseg", ("'[(0,0),(1,1)]'",), _TEXT),
    ("box", ("'(1,1),(0,0)'",), _TEXT),
    ("path", ("'[(0,0),(1,1)]'", "'((0,0),(1,1))'"), _TEXT),
    ("polygon", ("'((0,0),(1,1),(2,0))'",), _TEXT),
    ("circle", ("'<(0,0),1>'",), _TEXT),
    ("tsvector", ("''", "'a:1 b:2'"), _TEXT),
    ("tsquery", ("'a & !b'",), _TEXT),
    ("int4range", ("'empty'", "'[1,5)'"), _TEXT),
    ("numrange", ("'(,)'", "'[1.5,2.5]'"), _TEXT),
    ("tstzrange", ("""'["2026-01-01 00:00:00+00","2026-01-02 00:00:00+00")'""",), _TEXT),
    ("int4multirange", ("'{}'", "'{[1,3),[7,9)}'"), _TEXT),
    ("datemultirange", ("'{[2026-01-01,2026-02-01)}'",), _TEXT),
    ("oidvector", ("''", "'1 2'"), _TEXT),
    ("int[]", ("'{}'", "'{{1,NULL},{-2147483648,3}}'", "'[0:1]={1,2}'"), _SAME),
    ("text[]", ("'{}'", """'{"a b",NULL,"x,y","NULL","\\\\\\""}'"""), _SAME),
    ("bool[]", ("'{t,f,NULL}'",), _SAME),
    ("jsonb[]", ("""ARRAY['{"a": 1}'::jsonb]""",), _TEXTS),
    ("pg_lsn", ("'0/0'", "'FFFFFFFF/FFFFFFFF'"), _TEXT),
    ("hstore", ("''", "'a=>1, b=>NULL, \"c d\"=>\"\\\\\\\"\"'"), _TEXT),
    ("citext", ("'Ab'",), _TEXT),
    ("citext[]", ("'{Ab,NULL}'",), _TEXTS),
    ("ltree", ("'a.b'",), _TEXT),
    ("colour", ("'red'", "'gr\"ün'"), _TEXT),
    ("colour[]", ("ARRAY['red','gr\"ün']::colour[]",), _TEXTS),
    ("positive", ("1", "2147483647"), "to_json(c::int)::text"),
    ("moment", ("'1970-01-02'",), "to_json(c::date - date '1970-01-01')::text"),
    ("pair", ("ROW(1, 'a \"b\"')", "ROW(NULL, '')"), _TEXT),
    ("pair[]", ("ARRAY[ROW(1, 'a,b')::pair]",), _TEXTS),
    ("span", ("'[1.5,2.5)'",), _TEXT),
)  # fmt: skip
OWN_TYPES = (
    "CREATE EXTENSION hstore",
    "CREATE EXTENSION citext",
    "CREATE EXTENSION ltree",
    "CREATE TYPE colour AS ENUM ('red', 'gr\"ün')",
    "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
    "CREATE DOMAIN moment AS date",
    "CREATE TYPE pair AS (n int, t text)",
    "CREATE TYPE span AS RANGE (subtype = float8)",
)


_OWN_SESSION = "?options=" + quote(
    "-c timezone=UTC -c search_path=public -c datestyle=ISO -c intervalstyle=postgres "
    "-c default_transaction_read_only=off -c statement_timeout=0 -c lock_timeout=0 "
    "-c standard_conforming_strings=on -c array_nulls=on -c client_encoding=UTF8"
)
_ODD_SESSIONS = (
    "timezone = 'Asia/Kolkata'", "datestyle = 'SQL, DMY'", "intervalstyle = 'sql_standard'",
    "bytea_output = 'escape'", "extra_float_digits = -3", "xmlbinary = 'hex'",
    "default_transaction_read_only = on", "statement_timeout = '2ms'", "lock_timeout = '1ms'",
    "client_encoding = 'LATIN1'", "search_path = 'elsewhere'", "standard_conforming_strings = off",
    "array_nulls = off", "default_transaction_isolation = 'serializable'",
    "idle_in_transaction_session_timeout = '10ms'",
)  # fmt: skip


class Postgres(WithColumns):
    server: PostgresServer
    can = frozenset(
        (
            subject.KEYS_CHANGE, subject.KEYS_REDEFINED, subject.TRANSACTIONS, subject.COLUMNS,
            subject.TRUNCATE, subject.RENAME, subject.ROWS_FOLLOW, subject.RESET, subject.SILENCE,
            subject.READ_AGAIN, subject.NO_KEY, subject.SESSIONS,
        )
    )  # fmt: skip
    types = TYPES
    before = OWN_TYPES
    ddl: ClassVar[Mapping[str, Sequence[str]]] = {
        "added": ["ALTER TABLE t ADD COLUMN more text DEFAULT 'dé'"],
        "dropped": ["ALTER TABLE t DROP COLUMN s"],
        "renamed": ["ALTER TABLE t RENAME COLUMN n TO m"],
        "retyped": ["ALTER TABLE t ALTER COLUMN n TYPE text"],
        "between": ["ALTER TABLE t DROP COLUMN n", "ALTER TABLE t ADD COLUMN n smallint DEFAULT 7"],
        "rewritten": ["ALTER TABLE t ALTER COLUMN id TYPE bigint"],
        "partly undone": ["BEGIN; ALTER TABLE t ADD COLUMN gone int; ROLLBACK"],
    }

    def make_database(self) -> None:
        self.server.execute(f"CREATE DATABASE {self.name}")

    def remove_database(self) -> None:
        remove_database(self.server, self.name)

    def url(self, port: int | None = None) -> str:
        return f"postgresql://postgres@127.0.0.1:{port or self.server.port}/{self.name}"

    @property
    def port(self) -> int:
        return self.server.port

    def kill(self) -> None:
        self.server.kill()

    def start(self) -> None:
        self.server.start()

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        return self.server.execute(*statements, database=self.name + _OWN_SESSION)

    def begin_sessions_oddly(self) -> None:
        self.execute("CREATE SCHEMA elsewhere", "CREATE TABLE elsewhere.types (id int)")
        for setting in _ODD_SESSIONS:
            self.execute(f"ALTER DATABASE {self.name} SET {setting}")

    def create(self, table: str) -> None:
        self.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, n int, s text)")

    def insert(self, table: str, first: int, last: int, text: str = "x") -> None:
        self.execute(
            f"INSERT INTO {table} SELECT i, i, '{text}' FROM generate_series({first}, {last}) i"
        )

    def set(self, table: str, identity: int, n: int) -> None:
        self.execute(f"UPDATE {table} SET n = {n} WHERE id = {identity}")

    def delete(self, table: str, identity: int) -> None:
        self.execute(f"DELETE FROM {table} WHERE id = {identity}")

    def select(self, table: str) -> list[Row]:
        return [row for (row,) in self.execute(f"SELECT to_jsonb(t) FROM {table} t ORDER BY id")]

    def redefine(self, table: str, *columns: str) -> None:
        dropped = f"ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {table}_pkey"
        added = f", ADD PRIMARY KEY ({', '.join(columns)})" if columns else ""
        self.execute(f"{dropped}{added}")

    def retype_as_text(self, table: str, column: str) -> None:
        self.execute(f"ALTER TABLE {table} ALTER COLUMN {column} TYPE text")

    def read_again(self, table: str, after: list[str] | None) -> None:
        assert self.position is not None
        self.position["incremental"] = {"queue": [f"public.{table}"], "after": after}

    def lose(self) -> None:
        self.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
            f"WHERE database = '{self.name}'"
        )
