"""Avro behind five bytes, by fastavro; in JSON as people write it: bytes in base64, times in ISO 8601,
decimals as texts, a union's value as itself (or, where that is given, under its type's name as Avro's own
JSON has it).
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Sequence
from datetime import date, datetime, time

import fastavro

from headwater.schemas.model import Imported
from headwater.schemas.values import exact
from headwater.schemas.values.avro_types import Kind, converting, reader_of
from headwater.schemas.values.errors import NotOfItsSchema
from headwater.schemas.values.fit import avro_defaults
from headwater.schemas.values.fit.avro import Fit
from headwater.schemas.values.header import Json
from headwater.schemas.values.logical_types import reinterpreted

_SHOWN = 300
_MISFITS = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError)


def parsed(text: str, imported: Sequence[Imported] = ()) -> Json:
    """The schema as fastavro has it, with what it refers to."""
    named: dict[str, Kind] = {}
    for each in imported:
        fastavro.parse_schema(_value(each.text), named, _force=True)
    return fastavro.parse_schema(_value(text), named, _force=True)


def _value(text: str) -> Json:
    return text.strip() if text.strip().isidentifier() else json.loads(text)


class AvroCodec:
    """`reader`: the schema as which values are to be read, with its defaults; None: as they were written.
    `for_columns`: as in `reader_of`."""

    kind = "avro"

    def __init__(
        self,
        text: str,
        imported: Sequence[Imported] = (),
        reader: tuple[str, Sequence[Imported]] | None = None,
        *,
        for_columns: bool = False,
    ) -> None:
        self._schema = parsed(text, imported)
        known = None if reader is None else parsed(*reader)
        written = reinterpreted(self._schema, known)
        self._reader = None if known is None else converting(known, for_columns=for_columns)
        if self._reader is not None:
            avro_defaults.settle(self._reader)
        self._fit = Fit(self._schema)
        self._read = reader_of(written, known, for_columns=for_columns)

    def decode(self, body: bytes) -> Json:
        try:
            return plain(self.read(body))
        except RecursionError:
            raise NotOfItsSchema("no Avro that can be shown: it is nested too deeply") from None

    def read(self, body: bytes) -> Json:
        """As fastavro has it."""
        data = io.BytesIO(body)
        try:
            found = self._read(data, self._schema, self._reader)
        except Exception as error:  # whatever its reader met: IndexError, EOFError, UnicodeError
            raise NotOfItsSchema(
                f"no Avro of its schema: {type(error).__name__} {error}".rstrip()
            ) from None
        if data.tell() != len(body):
            raise NotOfItsSchema(f"{len(body) - data.tell()} bytes follow the Avro record")
        return found

    def encode(self, value: Json) -> bytes:
        """From what JSON has. NotOfItsSchema names the field."""
        out = io.BytesIO()
        try:
            fastavro.schemaless_writer(out, self._schema, self._fit(value))
        except NotOfItsSchema:
            raise
        except _MISFITS as error:
            raise NotOfItsSchema(f"its Avro schema does not take it: {error}"[:_SHOWN]) from None
        return out.getvalue()

    def encode_text(self, text: str) -> bytes:
        return self.encode(exact.loads(text))


def plain(value: Json) -> Json:
    """What fastavro reads, as JSON has it."""
    if isinstance(value, float):
        return exact.shown(value)
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return str(value)
