"""Values that name their schema: decoded by it, into the columns that the query was started with.

    option `registry`, with a schema    a struct of these columns, whatever the value was written as
    option `registry`, without          key and value as JSON, for whoever reads JSON (`hw.table`)

The schema of each id is asked for once in a process. `registryPin` is the id that the query's columns were
made from: a schema from whose data that one cannot be read stops the query, with the difference, before any
row of it is handed out. With `registryWatch`, so does a latest schema that is another than the query's, for
the driver to look at (`pipelines.evolution`). A value that does not begin with an id is JSON, or
in any case what it is.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headwater.schemas.model import JSON, PROTOBUF
from headwater.schemas.values.codecs import Codec, Codecs, Found
from headwater.schemas.values.errors import NotOfItsSchema, SchemaNotFound
from headwater.schemas.values.header import PREFIX_BYTES, Json
from headwater.spark.source.values import python
from headwater.spark.source.values.query_schemas import known, schemas_of
from headwater.spark.source.values.schema import Bad, Values

if TYPE_CHECKING:
    from headwater.spark.source.options import SourceOptions
    from headwater.spark.source.values.avro_columns.arrays import AvroColumns
    from headwater.spark.source.values.protobuf_columns.arrays import ProtobufColumns

_PLAIN = -1
"""In place of an id, for a value that has none."""


class RegistryValues:
    """To a column of structs."""

    def __init__(self, options: SourceOptions, topic: str, kind: pa.StructType) -> None:
        self._schemas = schemas_of(options, topic)
        self._kind = kind
        self._columns: dict[int, AvroColumns | ProtobufColumns | None] = {}
        self._json: Values | None = None

    def convert(self, column: pa.Array) -> tuple[pa.Array, Sequence[Bad]]:
        ids = identities(column)
        there = np.unique(ids)
        if len(there) == 1:
            return self._of_one(int(there[0]), column)
        parts, rows, bad = [], [], []
        for identity in there:
            own = np.flatnonzero(ids == identity)
            structs, wrong = self._of_one(int(identity), column.take(pa.array(own)))
            lost = [each.row for each in wrong]
            bad += [Bad(int(own[each.row]), each.reason) for each in wrong]
            parts.append(structs)
            rows.append(np.delete(own, lost))
        order = np.argsort(np.concatenate(rows), kind="stable")
        return pa.concat_arrays(parts).take(pa.array(order)), sorted(bad)

    def _of_one(self, identity: int, column: pa.Array) -> tuple[pa.Array, Sequence[Bad]]:
        if identity == _PLAIN:
            return self._plain().convert(column)
        try:
            found = self._schemas.found(identity)
            if found.schema.kind == JSON:
                return self._plain().convert(_without_prefix(column))
            codec = self._schemas.codecs.of(identity)
        except SchemaNotFound as error:
            return _none(column, self._kind, error.sentence)
        read = _parse(getattr(codec, "read", codec.decode))
        return self._by_columns(found, column, read) or python.convert(column, self._kind, read)

    def _by_columns(
        self, found: Found, column: pa.Array, read: Callable[[bytes], Json]
    ) -> tuple[pa.Array, Sequence[Bad]] | None:
        if found.id not in self._columns:
            self._columns[found.id] = self._planned(found)
        plan = self._columns[found.id]
        made = None if plan is None else plan.convert(column)
        if made is None:
            return None
        structs, verdicts = made
        rows = np.flatnonzero(verdicts)
        if not len(rows):
            return structs, []
        # What is not read so is read one by one, or it is said why it cannot be.
        others, bad = python.convert(column.take(pa.array(rows)), self._kind, read)
        good = np.flatnonzero(verdicts == 0)
        rest = np.delete(rows, [each.row for each in bad])
        order = pa.array(np.argsort(np.concatenate([good, rest]), kind="stable"))
        said = [Bad(int(rows[each.row]), each.reason) for each in bad]
        return pa.concat_arrays([structs.take(pa.array(good)), others]).take(order), said

    def _planned(self, found: Found) -> AvroColumns | ProtobufColumns | None:
        if found.schema.kind == PROTOBUF:
            from headwater.schemas.values.protobuf import ProtobufCodec
            from headwater.spark.source.values.protobuf_columns import plan as protobuf_plan

            codec = self._schemas.codecs.of(found.id)
            assert isinstance(codec, ProtobufCodec)
            message = codec.message()
            if not codec.is_read(message):
                return None  # it stands elsewhere in its file
            return protobuf_plan.plan(message, self._kind, codec.reader)
        from headwater.schemas.values.avro import parsed
        from headwater.schemas.values.logical_types import reinterpreted
        from headwater.spark.source.values.avro_columns import plan as avro_plan

        pinned = self._schemas.pinned
        ours = None if pinned is None else parsed(pinned.schema.text, pinned.imported)
        written = reinterpreted(parsed(found.schema.text, found.imported), ours)
        return avro_plan.plan(written, self._kind, ours)

    def _plain(self) -> Values:
        if self._json is None:
            from headwater.spark.source.values.json import JsonValues

            self._json = JsonValues(self._kind)
        return self._json


class RegistryTexts:
    """To JSON, for keys and values; what cannot be decoded stays as it is, and is nobody's JSON."""

    def __init__(self, options: SourceOptions, topic: str) -> None:
        self._schemas = schemas_of(options, topic)
        assert options.registry is not None
        self._keys = known(options.registry.url, None).codecs

    def values(self, column: pa.Array) -> pa.Array:
        for identity in np.unique(identities(column)):
            if identity != _PLAIN:
                try:
                    self._schemas.found(int(identity))
                except SchemaNotFound:
                    pass  # its values stay as they are
        return _texts(column, self._schemas.codecs)

    def keys(self, column: pa.Array) -> pa.Array:
        return _texts(column, self._keys)


def _texts(column: pa.Array, codecs: Codecs) -> pa.Array:
    ids = identities(column)
    if (ids == _PLAIN).all():
        return column
    found = column.to_pylist()
    named = {int(each): _codec(codecs, int(each)) for each in np.unique(ids)}
    for row in np.flatnonzero(ids != _PLAIN):
        if (codec := named[int(ids[row])]) is not None:
            with suppress(NotOfItsSchema):
                found[row] = _json(codec.decode(found[row][PREFIX_BYTES:])).encode()
    return pa.array(found, column.type)


def _codec(codecs: Codecs, identity: int) -> Codec | None:
    """None where there is none: it is asked for once, and not for each that begins so, as a number does."""
    try:
        return None if identity == _PLAIN else codecs.of(identity)
    except SchemaNotFound:
        return None


def _json(value: Json) -> str:
    """NaN and the infinities are texts, as Spark writes and reads them, and captures do."""
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), separators=(",", ":"), ensure_ascii=False)


def _finite(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def identities(column: pa.Array) -> NDArray[np.int64]:
    """The id that each value begins with, or -1."""
    rows = len(column)
    if not rows:
        return np.zeros(0, np.int64)
    ends = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + rows + 1]
    data = np.frombuffer(column.buffers()[2] or b"", np.uint8)
    framed = (np.diff(ends) >= PREFIX_BYTES) & np.asarray(column.is_valid())
    starts = np.where(framed, ends[:-1], 0).astype(np.int64)
    if not framed.any():
        return np.full(rows, _PLAIN)
    framed &= data[starts] == 0
    starts = np.where(framed, starts, 0)
    if not framed.any():
        return np.full(rows, _PLAIN)
    first = int(starts[framed][0])
    starts = np.where(framed, starts, first)
    ids = np.zeros(rows, np.int64)
    for n in range(1, PREFIX_BYTES):
        ids = (ids << 8) | data[starts + n]
    return np.where(framed, ids, _PLAIN)


def _without_prefix(column: pa.Array) -> pa.Array:
    return pc.binary_slice(column, PREFIX_BYTES)


def _parse(read: Callable[[bytes], Json]) -> Callable[[bytes], Json]:
    def parse(value: bytes) -> Json:
        try:
            return _named(read(value[PREFIX_BYTES:]))
        except NotOfItsSchema as error:
            raise python.Misfit(error.sentence) from None

    return parse


def _named(value: Json) -> Json:
    """What fastavro makes of logical types, as Spark's columns have it."""
    from headwater.spark.source.values.avro import plain

    return plain(value)


def _none(column: pa.Array, kind: pa.StructType, reason: str) -> tuple[pa.Array, Sequence[Bad]]:
    rows = np.flatnonzero(np.asarray(column.is_valid()))
    left = len(column) - len(rows)
    return pa.nulls(left, kind), [Bad(int(row), reason) for row in rows]
