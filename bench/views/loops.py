"""The obvious alternatives: what one writes with a client library in an afternoon.

Each is a loop over rows that upserts by key and commits every `UNIT` rows. None of them knows how far it is,
so none survives a crash without doubt; that is what they are compared with.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.views.rows import NAMES, SCHEMA

UNIT = 5_000
Rows = Sequence[tuple[Any, ...]]
Loop = Callable[[Rows], None]
_COLUMNS = ", ".join(NAMES)
_CHANGES = ", ".join(f"{name} = excluded.{name}" for name in NAMES[1:])


def units(rows: Iterable[Any]) -> Iterator[list[Any]]:
    found = iter(rows)
    while unit := list(itertools.islice(found, UNIT)):
        yield unit


def psycopg_loop(url: str) -> Loop:
    import psycopg

    with psycopg.connect(url) as connection:
        connection.execute(
            "CREATE TABLE looped (id BIGINT PRIMARY KEY, customer TEXT, item TEXT, "
            "total DOUBLE PRECISION, placed_at TIMESTAMPTZ)"
        )

    def run(rows: Rows) -> None:
        statement = (
            f"INSERT INTO looped ({_COLUMNS}) VALUES (%s, %s, %s, %s, %s) "
            f"ON CONFLICT (id) DO UPDATE SET {_CHANGES}"
        )
        with psycopg.connect(url) as connection:
            for unit in units(rows):
                for row in unit:
                    connection.execute(statement, row)
                connection.commit()

    return run


def sqlite_loop(folder: Path) -> Loop:
    path = folder / "looped.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(
        "CREATE TABLE looped (id INTEGER PRIMARY KEY, customer TEXT, item TEXT, total REAL, placed_at TEXT)"
    )
    connection.close()

    def run(rows: Rows) -> None:
        statement = (
            f"INSERT INTO looped VALUES (?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET {_CHANGES}"
        )
        connection = sqlite3.connect(path)
        for unit in units(rows):
            for id, customer, item, total, at in unit:
                connection.execute(statement, (id, customer, item, total, at.isoformat()))
            connection.commit()
        connection.close()

    return run


def duckdb_loop(folder: Path) -> Loop:
    import duckdb

    path = str(folder / "looped.duckdb")
    with duckdb.connect(path) as connection:
        connection.execute(
            "CREATE TABLE looped (id BIGINT PRIMARY KEY, customer VARCHAR, item VARCHAR, "
            "total DOUBLE, placed_at TIMESTAMPTZ)"
        )

    def run(rows: Rows) -> None:
        with duckdb.connect(path) as connection:
            for unit in units(rows):
                connection.begin()
                for row in unit:
                    connection.execute("INSERT OR REPLACE INTO looped VALUES (?, ?, ?, ?, ?)", row)
                connection.commit()

    return run


def delta_loop(folder: Path) -> Loop:
    import pyarrow as pa
    from deltalake import DeltaTable

    path = folder / "looped"
    DeltaTable.create(path, SCHEMA)

    def run(rows: Rows) -> None:
        for unit in units(rows):
            columns = [
                pa.array(c, f.type) for c, f in zip(zip(*unit, strict=True), SCHEMA, strict=True)
            ]
            merge = DeltaTable(path).merge(
                pa.Table.from_arrays(columns, schema=SCHEMA),
                "t.id = s.id",
                source_alias="s",
                target_alias="t",
            )
            merge.when_matched_update_all().when_not_matched_insert_all().execute()

    return run


def redis_loop(url: str, pipelined: int = 0) -> Loop:
    import redis

    def run(rows: Rows) -> None:
        with redis.Redis.from_url(url) as client:
            if not pipelined:
                for row in rows:
                    client.hset(f"looped:{row[0]}", mapping=_texts(row))
                return
            found = iter(rows)
            while some := list(itertools.islice(found, pipelined)):
                with client.pipeline(transaction=False) as pipeline:
                    for row in some:
                        pipeline.hset(f"looped:{row[0]}", mapping=_texts(row))
                    pipeline.execute()

    return run


def _texts(row: tuple[Any, ...]) -> dict[str, str]:
    return {name: str(value) for name, value in zip(NAMES, row, strict=True)}


def tantivy_loop(folder: Path) -> Loop:
    import tantivy

    path = folder / "looped"
    path.mkdir()
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("key", stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_text_field("customer", stored=True)
    builder.add_text_field("item", stored=True)
    builder.add_float_field("total", stored=True, indexed=True, fast=True)
    builder.add_date_field("at", stored=True, indexed=True, fast=True)
    index = tantivy.Index(builder.build(), path=str(path))

    def run(rows: Rows) -> None:
        writer = index.writer()
        for unit in units(rows):
            for id, customer, item, total, at in unit:
                writer.delete_documents_by_term("key", str(id))
                document = tantivy.Document()
                document.add_text("key", str(id))
                document.add_text("customer", customer)
                document.add_text("item", item)
                document.add_float("total", total)
                document.add_date("at", at)
                writer.add_document(document)
            writer.commit()
        writer.wait_merging_threads()

    return run
