"""Rows of views in stores that are read through their targets: Redis and Delta Lake.

A target wants to be told the columns; both stores know them: Delta in its schema, Redis in the book of views.
"""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from headwater.client.position import Position
from headwater.pipelines.handles import handle
from headwater.pipelines.stores import kind_of
from headwater.pipelines.view_rows.contract import Row, Rows
from headwater.pipelines.view_rows.documents import smallest
from headwater.pipelines.view_rows.values import parts_of
from headwater.views.targets.contract import VALIDITY, Applied, Kind, Shape, Target, Unavailable
from headwater.views.targets.json_rows import objects
from headwater.views.targets.registry import target_for
from headwater.views.targets.texts import from_texts, key_texts


class ArrowRows(Rows):
    """Through `Target.reading`."""

    @abstractmethod
    def _schema(self, version: int) -> pa.Schema:
        """Of the visible rows."""

    def get(self, key: str) -> tuple[Position | None, Row | None]:
        target = self._target()
        parts = parts_of(key, len(self.view.key))
        try:
            columns = [
                from_texts([text], target.shape.schema.field(name).type)
                for name, text in zip(self.view.key, parts or (), strict=True)
            ]
        except (ValueError, pa.ArrowInvalid):  # no such key can be
            return _position(target.applied()), None
        keys = pa.table(columns, names=list(self.view.key))
        with target.reading(keys) as (applied, batches):
            found = next(self._rows(batches), None)
            return _position(applied), found

    def page(self, after: str | None, limit: int) -> tuple[Position | None, list[Row]]:
        with self.all() as (position, rows):
            return position, smallest(rows, after, limit, self)

    @contextmanager
    def all(self) -> Iterator[tuple[Position | None, Iterator[Row]]]:
        with self._target().reading() as (applied, batches):
            yield _position(applied), self._rows(batches)

    def _rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Row]:
        for batch in batches:
            shown = batch.filter(batch.column("current")) if self.is_history else batch
            keys = key_texts(shown, self.view.key) if shown.num_rows else []
            yield from map(Row, keys, objects(shown))

    def _target(self) -> Target:
        current = handle(self.view).version(1).current()
        if current is None:
            raise self.not_yet()
        schema, kind = self._schema(current), kind_of(self.view)
        if kind is Kind.HISTORY:
            schema = pa.schema([field for field in schema if field.name not in VALIDITY])
        shape = Shape(self.view.name, schema, self.view.key, kind, current, self.view.options)
        return target_for(self.view.to, shape)


def _position(applied: Applied | None) -> Position | None:
    return None if applied is None else applied.position


class DeltaRows(ArrowRows):
    def _schema(self, version: int) -> pa.Schema:
        import deltalake

        path = Path(self.address.partition(":")[2])
        path = path / self.view.options["table"] if "table" in self.view.options else path
        dataset = deltalake.DeltaTable(path / f"v{version}").to_pyarrow_dataset()
        return dataset.schema


class RedisRows(ArrowRows):
    def _schema(self, version: int) -> pa.Schema:
        import redis

        from headwater.views.targets.redis.scripts import BOOK

        client = redis.Redis.from_url(self.address, decode_responses=True, socket_timeout=10)
        try:
            said = client.hget(BOOK, f"{self.view.name}/{version}/shape")
        except (redis.ConnectionError, redis.TimeoutError) as error:
            raise Unavailable(f"Redis does not answer: {error}") from error
        finally:
            client.close()
        if said is None:
            raise self.not_yet()
        columns = json.loads(str(said))["columns"]
        return pa.schema([(name, type_of(kind)) for name, kind in columns.items()])


_DECIMAL = re.compile(r"decimal(128|256)\((\d+), (-?\d+)\)")
_TIMESTAMP = re.compile(r"timestamp\[(s|ms|us|ns)(?:, tz=([^\]]+))?\]")
_NESTED = re.compile(r"(list|large_list|struct|map)<(.*)>", re.DOTALL)


def type_of(text: str) -> pa.DataType:
    """An Arrow type from how it is written; what is not known here is read as text."""
    if found := _DECIMAL.fullmatch(text):
        make = pa.decimal128 if found[1] == "128" else pa.decimal256
        return make(int(found[2]), int(found[3]))
    if found := _TIMESTAMP.fullmatch(text):
        return pa.timestamp(found[1], found[2])
    if found := _NESTED.fullmatch(text):
        return _nested(found[1], _parts(found[2]))
    try:
        return pa.type_for_alias(text)
    except ValueError:
        return pa.string()


def _nested(kind: str, parts: list[str]) -> pa.DataType:
    if kind == "map":
        return pa.map_(*(type_of(part) for part in parts[:2]))
    fields = [(name, type_of(rest)) for name, _, rest in (part.partition(": ") for part in parts)]
    if kind == "struct":
        return pa.struct(fields)
    return pa.list_(fields[0][1])


def _parts(text: str) -> list[str]:
    """Split at the commas that are not inside brackets."""
    parts, depth, begin = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter in "<[(") - (letter in ">])")
        if letter == "," and depth == 0:
            parts.append(text[begin:place])
            begin = place + 1
    return [part.strip().removesuffix(" not null") for part in (*parts, text[begin:])]
