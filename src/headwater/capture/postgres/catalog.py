"""What the database's catalogue says about tables and types; read with an ordinary connection.

Called by `snapshot`, `relations` and `check`. The replication stream brings names and type numbers of
each row's moment; what a type number means (an enum, an array of it, a domain) is asked here.
"""

from __future__ import annotations

import struct
from base64 import b64encode
from dataclasses import dataclass
from typing import Any

import psycopg

from headwater.capture.postgres import types
from headwater.capture.postgres.connection import Connection, identifier, plain
from headwater.capture.postgres.pgoutput import RelationColumn

_TYPE = """
SELECT t.typtype::text, t.typelem::int8, t.typbasetype::int8, e.typdelim::text,
       coalesce(e.typarray = t.oid, false),
       (SELECT array_agg(enumlabel::text ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = t.oid),
       t.typname::text
FROM pg_type t LEFT JOIN pg_type e ON e.oid = t.typelem WHERE t.oid = %s
"""

_TABLES = """
SELECT c.oid::int8, p.schemaname::text, p.tablename::text, c.relreplident::text,
       p.attnames::text[], p.rowfilter, greatest(c.reltuples, 0)::int8, c.relkind::text
FROM pg_publication_tables p
JOIN pg_namespace n ON n.nspname = p.schemaname
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename
WHERE p.pubname = %s ORDER BY 2, 3
"""
# Before PostgreSQL 15 a publication had neither column lists nor row filters.
_WHOLE_TABLES = _TABLES.replace("p.attnames::text[]", "NULL::text[]").replace("p.rowfilter", "NULL")

# To the server a deferrable key identifies no row: the stream has none either.
_COLUMNS = """
SELECT a.attname::text, a.atttypid::int8, a.atttypmod::int4, a.attnotnull,
       EXISTS (SELECT FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid
               WHERE i.indrelid = a.attrelid AND i.indisprimary AND a.attnum = ANY (i.indkey)
               AND (i.indimmediate OR t.relreplident = 'f')),
       EXISTS (SELECT FROM pg_index i WHERE i.indrelid = a.attrelid
               AND i.indisreplident AND a.attnum = ANY (i.indkey)),
       a.attgenerated <> ''
FROM pg_attribute a
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""

_DEFERRABLE = """
SELECT FROM pg_index WHERE indrelid = %s AND indisprimary AND NOT indimmediate
"""

_NAME = """
SELECT n.nspname::text, c.relname::text
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = %s
"""

_LARGE_VALUES = """
SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_class p
  ON p.oid = c.oid OR p.oid IN (SELECT relid FROM pg_partition_tree(c.oid))
WHERE n.nspname = %s AND c.relname = %s AND pg_relation_size(nullif(p.reltoastrelid, 0)) > 0 LIMIT 1
"""

LISTS_SINCE = 150_000
GENERATED_SINCE = 180_000
"""Since then a publication may list generated columns too, and the stream has them."""


@dataclass(frozen=True)
class CatalogColumn:
    name: str
    type_id: int
    modifier: int
    not_null: bool
    in_primary_key: bool
    in_identity_index: bool
    generated: bool = False


@dataclass(frozen=True)
class Table:
    """A published table as it is now."""

    relation: int
    namespace: str
    name: str
    identity: str
    columns: tuple[CatalogColumn, ...]
    row_filter: str | None
    rows_expected: int
    partitioned: bool = False
    leaf: str | None = None
    """Only the rows of this partition (its name, quoted) are meant."""

    @property
    def collection(self) -> str:
        return f"{self.namespace}.{self.name}"

    @property
    def quoted(self) -> str:
        return identifier(self.namespace, self.name)

    @property
    def own_rows(self) -> str:
        """For FROM: without the rows of tables that inherit from it, which the stream brings as theirs."""
        if self.leaf is not None:
            return f"ONLY {self.leaf}"
        return self.quoted if self.partitioned else f"ONLY {self.quoted}"

    def key(self) -> tuple[str, ...]:
        """The columns that identify a row in the changes too: the replica identity, or under FULL the
        primary key."""
        if self.identity == "i":
            return tuple(column.name for column in self.columns if column.in_identity_index)
        return tuple(column.name for column in self.columns if column.in_primary_key)

    def relation_columns(self) -> tuple[RelationColumn, ...]:
        key = self.key()
        return tuple(
            RelationColumn(column.name, column.type_id, column.modifier, column.name in key)
            for column in self.columns
        )


class Catalog:
    """Asked over one connection; types are remembered."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._types: dict[int, types.TypeInfo] = {}

    def type_info(self, type_id: int) -> types.TypeInfo:
        found = types.BUILT_IN.get(type_id) or self._types.get(type_id)
        if found is None:
            found = self._types[type_id] = self._ask_type(type_id)
        return found

    def forget_types(self) -> None:
        """After a schema change: an enum may have new labels."""
        self._types.clear()

    def _ask_type(self, type_id: int) -> types.TypeInfo:
        with plain():
            row = self._connection.execute(_TYPE, [type_id]).fetchone()
        if row is None:
            return types.STRING  # dropped since: its text is all that is left
        kind, element, base, separator, is_array, labels, name = row
        if is_array:
            return types.array_of(self.type_info(element), separator)
        if kind == "d":
            return self.type_info(base)
        if kind == "e":
            return types.enum(labels or [])
        return OF_EXTENSIONS.get(name, types.STRING) if kind == "b" else types.STRING

    def tables(self, publication: str) -> list[Table]:
        """What the publication holds, with its column lists and row filters."""
        with plain():
            listed = self._connection.info.server_version >= LISTS_SINCE
            query = _TABLES if listed else _WHOLE_TABLES
            rows = self._connection.execute(query, [publication]).fetchall()
            return [self._table(row) for row in rows]

    def _table(self, row: Any) -> Table:
        relation, namespace, name, identity, published, row_filter, expected, kind = row
        columns = [
            CatalogColumn(*found)
            for found in self._connection.execute(_COLUMNS, [relation]).fetchall()
        ]
        if self._connection.info.server_version < GENERATED_SINCE:
            columns = [column for column in columns if not column.generated]
        if published is not None:
            columns = [column for column in columns if column.name in published]
        return Table(
            relation, namespace, name, identity, tuple(columns), row_filter, expected, kind == "p"
        )

    def primary_key(self, relation: int) -> tuple[set[str], bool]:
        """Names of the primary key's columns now, which under FULL the stream does not tell; and whether
        it is deferrable."""
        with plain():
            rows = self._connection.execute(_COLUMNS, [relation]).fetchall()
            deferrable = self._connection.execute(_DEFERRABLE, [relation]).fetchone() is not None
        return {row[0] for row in rows if row[4]}, deferrable

    def name_of(self, relation: int) -> str | None:
        """A table's schema and name now; None where it was dropped."""
        with plain():
            row = self._connection.execute(_NAME, [relation]).fetchone()
        return None if row is None else f"{row[0]}.{row[1]}"


# ── types of PostGIS and pgvector, as Debezium shows them ──────────────────────────────────────────

_HAS_SRID = 0x20000000
_HEX = frozenset(b"0123456789ABCDEFabcdef")


def geometry(raw: bytes) -> str:
    """Hexadecimal of: byte order, type with flags, the reference system if a flag says so, coordinates."""
    if len(raw) < 18 or len(raw) % 2 or not _HEX.issuperset(raw):
        return types.text(raw)  # another extension's type of that name
    binary = bytes.fromhex(raw.decode("ascii"))
    order = "<" if binary[0] else ">"
    (flags,) = struct.unpack_from(f"{order}I", binary, 1)
    srid = struct.unpack_from(f"{order}i", binary, 5)[0] if flags & _HAS_SRID else "null"
    return f'{{"wkb":"{b64encode(binary).decode("ascii")}","srid":{srid}}}'


def vector(raw: bytes) -> str:
    """[1,2.5,3e-05], which is JSON already."""
    return raw.decode("ascii") if raw[:1] == b"[" else types.text(raw)


def _spatial(name: str) -> types.TypeInfo:
    fields = [
        {"type": "bytes", "optional": False, "field": "wkb"},
        {"type": "int32", "optional": True, "field": "srid"},
    ]
    named = ("name", f"io.debezium.data.geometry.{name}")
    return types.TypeInfo(geometry, (("type", "struct"), ("fields", fields), named, ("version", 1)))


def _numbers(kind: str, name: str) -> types.TypeInfo:
    items = {"type": kind, "optional": False}
    named = ("name", f"io.debezium.data.{name}")
    return types.TypeInfo(vector, (("type", "array"), ("items", items), named, ("version", 1)))


OF_EXTENSIONS = {
    "geometry": _spatial("Geometry"),
    "geography": _spatial("Geography"),
    "vector": _numbers("double", "DoubleVector"),
    "halfvec": _numbers("float", "FloatVector"),
}


def has_large_values(connection: Connection, namespace: str, name: str) -> bool:
    """Whether some of a table's values stand apart from its rows (TOAST)."""
    with plain():
        return connection.execute(_LARGE_VALUES, [namespace, name]).fetchone() is not None
