"""Change records to typed changes on the driver, in compiled code: what `decoder` says, in microseconds.

`follower` calls it with a batch's records. Each value is parsed by orjson and taken for what it is: an
envelope, an envelope in `payload`, a plain row, or nothing (a delete by key). What is not beyond doubt is
left to `decoder`, Spark's own parser by its own rules, together with every other such record of the batch;
that finds the bad values as well. So this can only be quicker than `decoder`, and never say anything else.

A table is read without regard to the view that asks (`table_reader`), so views over the same table share what
was read; what Spark is to look at, and dead letters, are each view's own (`EnvelopeDecoder`).

A key that is there twice in an object is seen by counting: before a key's colon there is a quote that no
backslash precedes, once for each key. Where something is between the two, Spark reads the value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa

from headwater.views.tables.arrow_values import Fit, Unfit, fit_of, key_text_of
from headwater.views.tables.bad_values import Refuse, stop
from headwater.views.tables.decoder import Decoder, Table
from headwater.views.tables.derivation import Derived
from headwater.views.tables.record_reader import Change, Read, ReadOne, TableReader
from headwater.views.tables.set_aside import NOBODY, Blame
from headwater.views.tables.value_forms import may_be_quick

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LARGE_BYTES = 1 << 20
"""Values above this are left to Spark, which has limits of its own for what is inside them."""
DEEP = 100
"""So many objects and lists in a value cannot be nested too deeply for Spark."""
_SPACED_COLON = re.compile(rb'"\s+:')
_LONG_NUMBER = re.compile(rb"[0-9.eE+-]{1000}")
_LONG_NAME = re.compile(rb'"(?:[^"\\]|\\.){50000}')
"""Spark's parser (Jackson) has limits for these: it reads no longer ones."""
_RECORDS = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp BIGINT"


class EnvelopeDecoder:
    """The changes of a view's tables in its batches of records."""

    def __init__(
        self,
        tables: Sequence[Table],
        spark: SparkSession,
        refuse: Refuse = stop,
        blame: Blame = NOBODY,
    ) -> None:
        """`refuse` gets the values that cannot be read, before any change of the batch is handed out."""
        self._derived = Derived(spark, refuse, blame)
        self._tables = tables
        self._spark = spark
        self._strict = Decoder([replace(table, derived=()) for table in tables], refuse)
        utc = is_utc(spark)
        self.readers = [table_reader(table, utc=utc) for table in tables]

    def __call__(self, records: Iterable[pa.RecordBatch]) -> list[pa.Table]:
        """The changes of each table, as `net_changes` takes them."""
        reads: list[list[Read]] = [[] for _ in self._tables]
        for batch in records:
            for reader, found in zip(self.readers, reads, strict=True):
                found.append(reader(batch))
        return self.finish(reads)

    def finish(self, reads: Sequence[Sequence[Read]]) -> list[pa.Table]:
        """The same from what was read of each table."""
        doubtful = {
            (r[2], r[3], r[4]): r for found in reads for read in found for r in read.doubtful
        }
        quick = []
        for table, reader, found in zip(self._tables, self.readers, reads, strict=True):
            parts = [reader.empty(), *(read.changes for read in found)]
            changes = pa.concat_tables(parts).combine_chunks()
            if doubtful:
                changes = _without(changes, table.topic, doubtful)
            quick.append(changes)
        if doubtful:
            records = list(doubtful.values())
            strict = self._strict(self._spark.createDataFrame(records, _RECORDS))
            quick = [
                pa.concat_tables([one, other.select(one.column_names).cast(one.schema)])
                for one, other in zip(quick, strict, strict=True)
            ]
        return [self._derived(*each) for each in zip(self._tables, quick, strict=True)]


def table_reader(table: Table, *, utc: bool) -> TableReader:
    """`utc`: Spark takes a time without a zone for one in UTC."""
    return TableReader(table, _schema(table), _reader_of(table, utc=utc))


def is_utc(spark: SparkSession) -> bool:
    return spark.conf.get("spark.sql.session.timeZone", "") == "UTC"


def _without(changes: pa.Table, topic: str, places: Iterable[tuple[str, int, int]]) -> pa.Table:
    """Where a topic is two tables, a record that one of them doubts is read by Spark for both."""
    doubted = {(p, o) for name, p, o in places if name == topic}
    if not doubted:
        return changes
    own = zip(changes["p"].to_pylist(), changes["o"].to_pylist(), strict=True)
    return changes.filter(pa.array([place not in doubted for place in own], pa.bool_()))


def _schema(table: Table) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    row = to_arrow_schema(table.row, timezone="UTC")
    kinds = {f"c{n}": kind for n, kind in enumerate(row.types)}
    kinds |= {"gone": pa.bool_(), "emptied": pa.bool_()}
    kinds |= {f"m{n}": row.types[place] for n, place in enumerate(table.keys)}
    return pa.schema(kinds | {"p": pa.int32(), "o": pa.int64(), "ts": pa.int64()})


# ---- one value ----------------------------------------------------------------------------------------


def _reader_of(table: Table, *, utc: bool) -> ReadOne | None:
    """From a record's key and value to its change; None for a table that Spark must read."""
    fits = [fit_of(field.dataType, utc=utc) for field in table.row.fields]
    known = tuple(
        _one_zero(fit) if n in table.keys else fit for n, fit in enumerate(fits) if fit is not None
    )
    names = tuple(table.row.names)
    if not may_be_quick(table) or len(known) < len(fits) or len(set(names)) < len(names):
        return None
    text = key_text_of(table.row[table.key[0]].dataType)
    required = tuple(names.index(name) for name in (*table.key, *table.required))
    return _Values(names, known, table.keys, required, text, (None,) * len(table.key)).change


def _one_zero(fit: Fit) -> Fit:
    """Both zeros are one key."""

    def plain(value: Any) -> Any:
        found = fit(value)
        return 0.0 if type(found) is float and found == 0 else found

    return plain


@dataclass(frozen=True)
class _Values:
    names: tuple[str, ...]
    fits: tuple[Fit, ...]
    keys: tuple[int, ...]
    """Which of the columns are the key."""
    required: tuple[int, ...]
    """Which of them no row is without."""
    key_text: Fit
    nothing: Change

    def change(self, key: bytes | None, value: bytes | None) -> Change:
        if value is None:
            row: list[Any] = [None] * len(self.names)
            return (*self._with_key(row, self._by_key(key)), True, False, *self.nothing)
        said = _unwrapped(_parsed(value))
        op, before, after = said.get("op"), said.get("before"), said.get("after")
        if op is None:
            if before is not None or after is not None:
                raise Unfit
            return (*self._whole(self._row(said)), False, False, *self.nothing)
        if type(op) is not str:
            raise Unfit
        return self._envelope(key, op, before, after)

    def _envelope(self, key: bytes | None, op: str, before: Any, after: Any) -> Change:
        if before is None and after is None:
            if op != "t":
                raise Unfit
            return (*(None for _ in self.names), False, True, *self.nothing)
        old = self.nothing if before is None else self._key_of(_object(before))
        row = [None] * len(self.names) if after is None else self._row(_object(after))
        if op == "d":
            if None in old:
                by_key = self._by_key(key)
                old = tuple(b if a is None else a for a, b in zip(old, by_key, strict=True))
            return (*self._with_key(row, old), True, False, *self.nothing)
        self._whole(row)
        new = (row[n] for n in self.keys)
        # A source that does not tell the row before says nothing of its key either.
        same = all(a is None or a == b for a, b in zip(old, new, strict=True))
        return (*row, False, False, *(self.nothing if same else old))

    def _row(self, said: dict[str, Any]) -> list[Any]:
        get = said.get
        return [fit(get(name)) for name, fit in zip(self.names, self.fits, strict=True)]

    def _whole(self, row: list[Any]) -> list[Any]:
        if any(row[n] is None for n in self.required):
            raise Unfit  # bad, and Spark's way says so
        return row

    def _keyed(self, row: list[Any]) -> list[Any]:
        if any(row[n] is None for n in self.keys):
            raise Unfit  # bad, and Spark's way says so
        return row

    def _with_key(self, row: list[Any], key: Sequence[Any]) -> list[Any]:
        for n, value in zip(self.keys, key, strict=True):
            row[n] = value
        return self._keyed(row)

    def _key_of(self, said: dict[str, Any]) -> Change:
        return tuple(self.fits[n](said.get(self.names[n])) for n in self.keys)

    def _by_key(self, key: bytes | None) -> Change:
        """As the record's key says it: JSON, Debezium's JSON with a schema, or plain text."""
        if key is None:
            raise Unfit
        if key.startswith(b"{"):
            said = _parsed(key)
            inner = said.get("payload")
            return self._key_of(said if inner is None else _object(inner))
        if len(self.keys) > 1 or (key.startswith(b'"') and b"\\" in key):
            raise Unfit
        return (self.key_text(key.decode().strip('"')),)


def _parsed(value: bytes) -> dict[str, Any]:
    if len(value) > LARGE_BYTES or value.count(b"{") + value.count(b"[") > DEEP:
        raise Unfit
    if _SPACED_COLON.search(value) or (len(value) > 1000 and _is_too_long(value)):
        raise Unfit
    said = _object(orjson.loads(value))
    if value.count(b'":') - value.count(b'\\":') != _keys(said):
        raise Unfit
    return said


def _is_too_long(value: bytes) -> bool:
    return bool(_LONG_NUMBER.search(value) or (len(value) > 50_000 and _LONG_NAME.search(value)))


def _keys(said: dict[str, Any]) -> int:
    """How many keys all objects have together."""
    count = len(said)
    for each in said.values():
        if type(each) is dict:
            count += _keys(each)
        elif type(each) is list:
            count += _keys_in(each)
    return count


def _keys_in(items: list[Any]) -> int:
    return sum(
        _keys(each) if type(each) is dict else _keys_in(each) if type(each) is list else 0
        for each in items
    )


def _unwrapped(said: dict[str, Any]) -> dict[str, Any]:
    payload = said.get("payload")
    if payload is None:
        return said
    inner = _object(payload)
    # Debezium's converter says the schema beside; a row may have a column named payload by itself.
    if said.get("schema") is None and inner.get("op") is None:
        raise Unfit
    return inner


def _object(said: Any) -> dict[str, Any]:
    if type(said) is not dict:
        raise Unfit
    return said
