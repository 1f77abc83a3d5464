"""A column of JSON as a registry's schema has it: Avro, Protobuf or JSON behind its id.

Spark's sink calls it in the tasks, for a write with the options `registry` and `registryId`. Whoever writes
has registered the schema before, on the driver.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import pyarrow as pa

from headwater.schemas.client import shared
from headwater.schemas.lookup import RegistryLookup
from headwater.schemas.values.codecs import Codec, Codecs
from headwater.schemas.values.errors import NotOfItsSchema
from headwater.schemas.values.exact import loads
from headwater.schemas.values.header import prefix


@lru_cache(maxsize=64)
def _codec(registry: str, identity: int) -> Codec:
    return Codecs(RegistryLookup(shared(registry))).of(identity)


def _encoder(codec: Codec) -> Callable[[str], bytes]:
    """A decimal of Spark's is a text in Protobuf, and a number in Spark's JSON: there, numbers are texts,
    which Protobuf's JSON takes for both."""
    if codec.kind == "protobuf":
        return lambda text: codec.encode(loads(text, str, str))
    return codec.encode_text


def encoded(batch: pa.RecordBatch, place: int, registry: str, identity: int) -> pa.RecordBatch:
    """With the column at `place` as the schema has it; what is null stays null."""
    codec, begin = _codec(registry, identity), prefix(identity)
    encode = _encoder(codec)
    values: list[bytes | None] = []
    for text in batch.column(place).to_pylist():
        if text is None:
            values.append(None)
            continue
        try:
            values.append(begin + encode(text))
        except NotOfItsSchema as error:
            raise NotOfItsSchema(
                f"A row is not of the schema {identity}: {error}.",
                hint="The schema was registered for other columns.",
            ) from None
    field = pa.field(batch.schema.field(place).name, pa.binary())
    return batch.set_column(place, field, pa.array(values, pa.binary()))
