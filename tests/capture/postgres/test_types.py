"""All built-in types, the same from the snapshot as from the stream, with nothing lost."""

from __future__ import annotations

import base64
import struct
from typing import Any

from tests.capture.postgres.running import Setting, key

# Column type, value as SQL, what a reader sees.
CASES: list[tuple[str, str, Any]] = [
    ("smallint", "-32768", -32768),
    ("integer", "2147483647", 2147483647),
    ("bigint", "-9223372036854775808", -9223372036854775808),
    ("oid", "4294967295", 4294967295),
    ("real", "1.1", 1.1),
    ("double precision", "0.1", 0.1),
    ("double precision", "'NaN'", "NaN"),
    ("double precision", "'-Infinity'", "-Infinity"),
    ("numeric", "123456789012345678901234567890.000123400", "123456789012345678901234567890.000123400"),
    ("numeric(10,2)", "1.5", "1.50"),
    ("numeric", "'NaN'", "NaN"),
    ("money", "'1234.50'", "$1,234.50"),
    ("boolean", "true", True),
    ("boolean", "false", False),
    ("text", "E'tab\\t newline\\n quote\" back\\\\ ü 🎈 \\x01'", 'tab\t newline\n quote" back\\ ü 🎈 \x01'),
    ("text", "''", ""),
    ("text", "'\\N'", "\\N"),
    ("varchar(5)", "'abc'", "abc"),
    ("char(5)", "'abc'", "abc  "),
    ("bytea", "'\\x00ff5c0a09'", base64.b64encode(b"\x00\xff\x5c\x0a\x09").decode()),
    ("bytea", "''", ""),
    ("date", "'2026-11-15'", 20772),
    ("date", "'0044-03-15 BC'", -735160),
    ("date", "'infinity'", 2147483647),
    ("time", "'13:14:15.123456'", 47655123456),
    ("time", "'24:00'", 86400000000),
    ("timetz", "'13:14:15.5+05:30'", "13:14:15.5+05:30"),
    ("timetz", "'13:14:15+00'", "13:14:15Z"),
    ("timestamp", "'1969-12-31 23:59:59.999999'", -1),
    ("timestamp", "'294276-12-31 23:59:59.999999'", 9224318015999999999),
    ("timestamp", "'-infinity'", -9223372036832400000),
    ("timestamptz", "'2026-11-15 13:00:00.25+02'", "2026-11-15T11:00:00.25Z"),
    ("timestamptz", "'infinity'", "infinity"),
    ("interval", "'1 year -2 days 03:04:05.6'", "P1Y-2DT3H4M5.6S"),
    ("interval", "'0'", "PT0S"),
    ("json", "'{\"b\": 1,  \"a\": [1.10]}'", '{"b": 1,  "a": [1.10]}'),
    ("jsonb", "'{\"b\":1.10}'", '{"b": 1.10}'),
    ("uuid", "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ("xml", "'<a>1</a>'", "<a>1</a>"),
    ("mood", "'so-so \"quoted\"'", 'so-so "quoted"'),
    ("mood[]", "ARRAY['ok', 'so-so \"quoted\"']::mood[]", ["ok", 'so-so "quoted"']),
    ("positive", "5", 5),
    ("integer[]", "'{1,NULL,3}'", [1, None, 3]),
    ("integer[]", "'{{1,2},{3,4}}'", [[1, 2], [3, 4]]),
    ("integer[]", "'[5:6]={1,2}'", [1, 2]),
    ("integer[]", "'{}'", []),
    ("text[]", "ARRAY['a,b', 'c\"d', NULL, 'NULL', '', E'e\\\\f', '{}']",
     ["a,b", 'c"d', None, "NULL", "", "e\\f", "{}"]),
    ("numeric[]", "'{1.10,2}'", ["1.10", "2"]),
    ("timestamptz[]", "ARRAY['2026-01-01 00:00:00+00'::timestamptz]", ["2026-01-01T00:00:00Z"]),
    ("box[]", "'{(1,1),(0,0);(2,2),(1,1)}'", ["(1,1),(0,0)", "(2,2),(1,1)"]),
    ("bytea[]", "ARRAY['\\x01ff'::bytea]", ["Af8="]),
    ("int4range", "'[1,5)'", "[1,5)"),
    ("tstzrange", "'[2026-01-01 00:00+00,)'", '["2026-01-01 00:00:00+00",)'),
    ("int4multirange", "'{[1,3),[5,8)}'", "{[1,3),[5,8)}"),
    ("bit(3)", "'101'", "101"),
    ("varbit", "'11'", "11"),
    ("inet", "'10.0.0.1/8'", "10.0.0.1/8"),
    ("cidr", "'10.0.0.0/8'", "10.0.0.0/8"),
    ("macaddr", "'08:00:2b:01:02:03'", "08:00:2b:01:02:03"),
    ("point", "'(1.5,2)'", "(1.5,2)"),
    ("circle", "'<(1,2),3>'", "<(1,2),3>"),
    ("tsvector", "'a fat cat'", "'a' 'cat' 'fat'"),
    ("pair", "ROW(1, 'x,y')", '(1,"x,y")'),
    ("pg_lsn", "'16/B374D848'", "16/B374D848"),
    ("text", "NULL", None),
    ("integer[]", "NULL", None),
]  # fmt: skip


def stand_in(name: str) -> list[str]:
    """Statements for a type of that name whose text is kept as it is, for an extension that is not here."""
    internal = "LANGUAGE internal IMMUTABLE STRICT"
    return [
        f"CREATE TYPE {name}",
        f"CREATE FUNCTION {name}_in(cstring) RETURNS {name} {internal} AS 'textin'",
        f"CREATE FUNCTION {name}_out({name}) RETURNS cstring {internal} AS 'textout'",
        f"CREATE TYPE {name} (INPUT = {name}_in, OUTPUT = {name}_out, LIKE = text)",
    ]


def extended(*, srid: int | None, order: str = "<") -> str:
    """A point as PostGIS writes it."""
    flags = 0x20000000 if srid is not None else 0
    system = b"" if srid is None else struct.pack(f"{order}i", srid)
    head = struct.pack(f"{order}BI", order == "<", 1 | flags)
    return (head + system + struct.pack(f"{order}dd", 1.5, -2.0)).hex().upper()


def _shown(text: str, srid: int | None) -> dict[str, Any]:
    return {"wkb": base64.b64encode(bytes.fromhex(text)).decode(), "srid": srid}


OF_EXTENSIONS: list[tuple[str, str, Any]] = [
    *(
        (kind, f"'{text}'", _shown(text, srid))
        for kind in ("geometry", "geography")
        for srid, order in ((None, "<"), (4326, "<"), (4326, ">"))
        for text in (extended(srid=srid, order=order),)
    ),
    ("geometry", "'another'", "another"),
    ("geometry[]", f"ARRAY['{extended(srid=1)}'::geometry]", [_shown(extended(srid=1), 1)]),
    ("vector", "'[1,-2.5,3e-05]'", [1, -2.5, 3e-05]),
    ("vector", "'another'", "another"),
    ("halfvec", "'[0.5]'", [0.5]),
    ("vector", "NULL", None),
]


def test_geometries_and_vectors_are_what_debezium_makes_of_them(setting: Setting) -> None:
    columns = ", ".join(f"c{n} {kind}" for n, (kind, _, _) in enumerate(OF_EXTENSIONS))
    values = ", ".join(value for _, value, _ in OF_EXTENSIONS)
    kinds = ("geometry", "geography", "vector", "halfvec")
    setting.execute(
        *(statement for kind in kinds for statement in stand_in(kind)),
        f"CREATE TABLE t (id int PRIMARY KEY, {columns})",
        f"INSERT INTO t VALUES (1, {values})",
    )
    with setting.running(setting.config("t")) as runner:
        setting.execute(f"INSERT INTO t VALUES (2, {values})")
        setting.caught_up(runner)
    expected = {f"c{n}": shown for n, (_, _, shown) in enumerate(OF_EXTENSIONS)}
    assert setting.fold("t") == {key(id=n): {"id": n, **expected} for n in (1, 2)}


def test_every_type_looks_the_same_from_the_snapshot_and_from_the_stream(setting: Setting) -> None:
    columns = ", ".join(f'"c{n} %" {kind}' for n, (kind, _, _) in enumerate(CASES))
    values = ", ".join(value for _, value, _ in CASES)
    setting.execute(
        "CREATE TYPE mood AS ENUM ('ok', 'so-so \"quoted\"')",
        "CREATE TYPE pair AS (a int, b text)",
        "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
        f"CREATE TABLE t (id int PRIMARY KEY, {columns})",
        f"INSERT INTO t VALUES (1, {values})",
    )
    # The server's own taste must not matter.
    setting.execute(
        f"ALTER DATABASE {setting.name} SET DateStyle = 'German'",
        f"ALTER DATABASE {setting.name} SET bytea_output = 'escape'",
        f"ALTER DATABASE {setting.name} SET TimeZone = 'Asia/Kolkata'",
        f"ALTER DATABASE {setting.name} SET IntervalStyle = 'postgres_verbose'",
    )
    with setting.running(setting.config("t")) as runner:
        setting.execute(f"INSERT INTO t VALUES (2, {values})")
        setting.caught_up(runner)
    table = setting.fold("t")
    expected = {f"c{n} %": shown for n, (_, _, shown) in enumerate(CASES)}
    for number in (1, 2):
        row = table[key(id=number)]
        assert row.pop("id") == number
        for name, shown in expected.items():
            assert row[name] == shown, f"{name}: {CASES[int(name[1:-2])]}"
