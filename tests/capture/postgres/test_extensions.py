"""PostGIS and pgvector themselves, in place of the types that `test_types` makes in their likeness."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

from tests.capture.postgres.driven import Driven
from tests.capture.postgres.server import PostgresServer, postgres
from tests.capture.servers.builds import Build
from tests.capture.servers.versions import PGVECTOR, POSTGIS


def captured(build: Build, extension: str, columns: str, rows: list[str], wanted: str) -> Any:
    """The rows as they were read, after looking that they were streamed alike; and what `wanted` selects."""
    with postgres(build=build) as server:
        server.execute("CREATE DATABASE shop")
        run = Driven("shop")

        def execute(statement: str) -> list[tuple[Any, ...]]:
            return PostgresServer.execute(server, statement, database="shop")

        execute(f"CREATE EXTENSION {extension}")
        execute(f"CREATE TABLE t (id int PRIMARY KEY, {columns})")
        for number, row in enumerate(rows):
            execute(f"INSERT INTO t VALUES ({number}, {row})")
        run.snapshot(server)
        read = run.rows("t")
        execute(f"UPDATE t SET id = id + {len(rows)}")
        run.stream(server)
        streamed = [row for op, row in run.changes("t") if op == "c"]
        assert [{**row, "id": row["id"] - len(rows)} for row in streamed] == read
        return read, execute(f"SELECT {wanted} FROM t ORDER BY id")


def test_vectors_of_pgvector_are_arrays_of_numbers() -> None:
    read, _ = captured(
        PGVECTOR,
        "vector",
        "v vector(3), h halfvec(3), many vector[], s sparsevec(5), b bit(3)",
        ["'[1,-2.5,3e-05]', '[1,-2.5,0.5]', ARRAY['[1]','[2,3]']::vector[], '{1:1.5,5:2}/5', '101'",
         "NULL, NULL, NULL, NULL, NULL"],
        "id",
    )  # fmt: skip
    assert read[0] == {
        "id": 0,
        "v": [1, -2.5, 3e-05],
        "h": [1, -2.5, 0.5],
        "many": [[1], [2, 3]],
        "s": "{1:1.5,5:2}/5",
        "b": "101",
    }
    assert set(read[1].values()) == {1, None}


def test_geometries_of_postgis_are_its_extended_binary_form_with_their_system() -> None:
    shapes = [
        "ST_SetSRID(ST_MakePoint(1, -2.5), 4326)", "ST_MakePoint(1, 2)", "ST_MakePoint(1, 2, 3)",
        "'SRID=3857;POLYGON((0 0,1 0,1 1,0 0))'", "'GEOMETRYCOLLECTION(POINT(1 2),LINESTRING(0 0,1 1))'",
        "'POINT EMPTY'", "'SRID=4326;MULTIPOINT M ((1 2 3),(4 5 6))'",
    ]  # fmt: skip
    read, there = captured(
        POSTGIS,
        "postgis",
        "g geometry, p geometry(Point,4326), w geography, x box2d",
        [f"{shape}, 'SRID=4326;POINT(3 4)', 'POINT(5 6)', 'BOX(0 0,1 1)'" for shape in shapes],
        "ST_AsEWKB(g), ST_SRID(g), ST_AsEWKB(p), ST_AsEWKB(w::geometry), x::text",
    )
    for row, (shape, system, point, place, box) in zip(read, there, strict=True):
        assert b64decode(row["g"]["wkb"]) == bytes(shape)
        assert row["g"]["srid"] == (system or None)
        assert (b64decode(row["p"]["wkb"]), row["p"]["srid"]) == (bytes(point), 4326)
        assert (b64decode(row["w"]["wkb"]), row["w"]["srid"]) == (bytes(place), 4326)
        assert row["x"] == box
