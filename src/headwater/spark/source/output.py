"""What a task hands to Spark: the source's columns as they are, or with typed values.

`task` gives it one piece of bytes after the other. With a schema, a value that does not fit is a dead
letter (mode DEADLETTER, the default) or the end of the query (FAILFAST). Its letter is on disk before the
rows that follow it are handed out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headwater.client.decode.columns import Bounds, Columns
from headwater.client.errors import QueryError
from headwater.spark.source.values.schema import Bad, Values, values

if TYPE_CHECKING:
    from headwater.client.dead_letter_writer import BadRecord, DeadLetterWriter
    from headwater.client.piece import Piece
    from headwater.spark.source.options import SourceOptions
    from headwater.spark.source.splits import Range
    from headwater.spark.source.values.registry import RegistryTexts

_LETTERS = pa.schema(
    [
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


class BadValue(QueryError):
    """A value that does not fit the schema, in a query that may not go on without it."""


class Output:
    """Decodes pieces of one range; `next_offset` says how far it has come."""

    def __init__(
        self, where: Range, bounds: Bounds, options: SourceOptions, schema: pa.Schema
    ) -> None:
        self._where = where
        self._options = options
        self._schema = schema
        self._crcs = options.client.get("check.crcs", "true").lower() != "false"
        self._values: Values | None = None
        self._texts: RegistryTexts | None = None
        self._letters: DeadLetterWriter | None = None
        raw = schema
        if options.schema is not None and "value" in schema.names:
            self._values = values(options, where.topic, schema.field("value").type)
            raw = _with_bytes(schema)
        elif options.registry is not None:
            from headwater.spark.source.values.registry import RegistryTexts

            self._texts = RegistryTexts(options, where.topic)
        self._columns = Columns(raw, where.topic, where.partition, bounds, check_crcs=self._crcs)

    @property
    def next_offset(self) -> int:
        return self._columns.next_offset

    def skip_to(self, offset: int) -> None:
        self._columns.next_offset = offset

    def batches(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        for batch in self._columns.decode(piece.data, piece.aborted):
            if self._values is None:
                yield batch if self._texts is None else self._as_texts(batch, self._texts)
                continue
            converted = self._convert(batch, piece)
            if converted.num_rows:
                yield converted

    def _as_texts(self, batch: pa.RecordBatch, texts: RegistryTexts) -> pa.RecordBatch:
        made = {"key": texts.keys, "value": texts.values}
        arrays = [
            made[name](batch.column(name)) if name in made else batch.column(name)
            for name in self._schema.names
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _convert(self, batch: pa.RecordBatch, piece: Piece) -> pa.RecordBatch:
        assert self._values is not None
        structs, bad = self._values.convert(batch.column("value"))
        if bad:
            self._refuse(batch, bad, piece)
            there = np.ones(batch.num_rows, np.bool_)
            there[[each.row for each in bad]] = False
            batch = batch.filter(pa.array(there))
        arrays = [structs if name == "value" else batch.column(name) for name in self._schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _refuse(self, batch: pa.RecordBatch, bad: Sequence[Bad], piece: Piece) -> None:
        offsets = batch.column("offset").take(pa.array([each.row for each in bad])).to_pylist()
        reasons = {offset: each.reason for offset, each in zip(offsets, bad, strict=True)}
        if self._options.mode == "FAILFAST":
            raise BadValue(
                f"The value at offset {offsets[0]} of {self._where.topic}-{self._where.partition} "
                f"does not fit the schema: {bad[0].reason}.",
                hint="Correct the schema, or use mode=DEADLETTER to keep such values apart.",
            )
        from headwater.client.dead_letter_writer import DeadLetterWriter

        if self._letters is None:
            self._letters = DeadLetterWriter(
                self._options.client,
                self._where.topic,
                self._where.partition,
                self._options.dead_letter_topic,
            )
        self._letters.put([*self._whole(piece, reasons)])

    def _whole(self, piece: Piece, reasons: dict[int, str]) -> Iterator[BadRecord]:
        """The bad records with everything they have: decoded again, for the query may want less."""
        bounds = Bounds(min(reasons), max(reasons) + 1)
        columns = Columns(
            _LETTERS, self._where.topic, self._where.partition, bounds, check_crcs=False
        )
        for batch in columns.decode(piece.data, piece.aborted):
            for number, offset in enumerate(batch.column("offset").to_pylist()):
                if offset in reasons:
                    yield _letter(batch.slice(number, 1), reasons[offset])


def _letter(row: pa.RecordBatch, reason: str) -> BadRecord:
    from headwater.client.dead_letter_writer import BadRecord

    offset, _, key, value, headers = (column[0].as_py() for column in row.columns)
    micros = row.column("timestamp").cast(pa.int64())[0].as_py()
    pairs = [(each["key"], each["value"]) for each in headers or ()]
    return BadRecord(offset, micros // 1000, key, value, pairs, reason)


def _with_bytes(schema: pa.Schema) -> pa.Schema:
    """The columns to decode: values as bytes, and offsets, to say which value was bad."""
    fields = [pa.field("value", pa.binary()) if f.name == "value" else f for f in schema]
    if "offset" not in schema.names:
        fields.append(pa.field("offset", pa.int64()))
    return pa.schema(fields)
