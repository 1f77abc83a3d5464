"""The three types of schemas by their names; the one place that knows them all.

Their libraries (fastavro, protoc, jsonschema) are imported when a schema of the type is first seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from typing import cast

from headwater.errors import missing_package
from headwater.schemas import bounds
from headwater.schemas.errors import InvalidSchema
from headwater.schemas.model import AVRO, JSON, PROTOBUF, Imported, Parse, Parsed

NAMES = (JSON, PROTOBUF, AVRO)
_HOMES = {AVRO: "avro", PROTOBUF: "protobuf", JSON: "json_schema"}


def parse(
    kind: str, text: str, imported: Sequence[Imported] = (), *, is_new: bool = True
) -> Parsed:
    """Raises InvalidSchema, or too_large."""
    home = _HOMES.get(kind)
    if home is None:
        raise InvalidSchema(
            f"Invalid schema type {kind!r}. Valid values are AVRO, JSON and PROTOBUF"
        )
    for each in (text, *(each.text for each in imported)):
        bounds.check_text(each)
    return _parse_of(home)(text, imported, is_new=is_new)


@lru_cache(maxsize=len(_HOMES))
def _parse_of(home: str) -> Parse:
    try:
        module = import_module(f"headwater.schemas.{home}.document")
    except ModuleNotFoundError as error:
        package = missing_package(error)
        raise InvalidSchema(
            f"schemas of this type need the package {package}: pip install 'headwater[schemas]'"
        ) from None
    return cast(Parse, module.parse)
