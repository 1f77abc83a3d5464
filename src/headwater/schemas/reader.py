"""Whether who reads columns by one schema can read what was written by another. The Spark source asks."""

from __future__ import annotations

import json

from headwater.schemas import kinds
from headwater.schemas.errors import InvalidSchema
from headwater.schemas.model import JSON, PROTOBUF, Parsed
from headwater.schemas.values.codecs import Found

_CLOSING = ("additionalProperties", "unevaluatedProperties")


def unreadable(pinned: Found, written: Found) -> list[str]:
    """Why data of `written` cannot be read by `pinned`; empty: it can."""
    if pinned.schema.kind != written.schema.kind:
        return [f"it is {written.schema.kind}, and that one is {pinned.schema.kind}"]
    try:
        parsed = _parsed(pinned, is_open=True), _parsed(written)
        found = parsed[0].unreadable(parsed[1])
    except InvalidSchema as error:  # nobody knows
        return [error.sentence]
    return [each.said("query's", "new") for each in found]


def _parsed(found: Found, *, is_open: bool = False) -> Parsed:
    """Who reads columns passes over what is beside them, which a closed JSON Schema would forbid."""
    text = found.schema.text
    if is_open and found.schema.kind == JSON:
        text = json.dumps(_opened(json.loads(text)))
    if found.schema.kind == PROTOBUF:
        from headwater.schemas import descriptors

        return descriptors.of(text, found.imported)
    return kinds.parse(found.schema.kind, text, found.imported, is_new=False)


def _opened(schema: object) -> object:
    if isinstance(schema, dict):
        return {
            name: _opened(each)
            for name, each in schema.items()
            if name not in _CLOSING or each is not False
        }
    return [_opened(each) for each in schema] if isinstance(schema, list) else schema
