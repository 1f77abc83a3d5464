"""A JSON Schema that was sent: checked against its draft, every `$ref` resolved. `kinds` calls `parse`.

Nothing is ever fetched: a `$ref` leads into the document, or into one of the references that were sent with
it. Any other is refused when the schema is registered.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cached_property

from jsonschema import Draft7Validator
from jsonschema.exceptions import SchemaError
from jsonschema.validators import validator_for
from referencing.exceptions import Unresolvable

from headwater.schemas import bounds
from headwater.schemas.errors import InvalidSchema
from headwater.schemas.json_schema import compatibility, nodes, steps
from headwater.schemas.json_schema.shapes import Node
from headwater.schemas.model import JSON, Difference, Imported

_DATA = ("enum", "const", "default", "examples")
"""Keywords whose values are no schemas, whatever they look like."""


class JsonSchema:
    kind = JSON

    def __init__(self, value: object, root: Node) -> None:
        self.value, self.root = value, root

    @cached_property
    def canonical(self) -> str:
        return json.dumps(self.value, separators=(",", ":"), ensure_ascii=False)

    @cached_property
    def normalized(self) -> str:
        return json.dumps(self.value, separators=(",", ":"), ensure_ascii=False, sort_keys=True)

    @property
    def serialized(self) -> str:
        return self.canonical

    @property
    def whole(self) -> str:
        return self.canonical

    def unreadable(self, written: JsonSchema) -> list[Difference]:
        return compatibility.differences(written.root, self.root)


def parse(text: str, imported: Sequence[Imported], *, is_new: bool) -> JsonSchema:
    """Raises InvalidSchema."""
    value = _value(text, is_new=is_new)
    root = nodes.rooted(value, {each.name: _value(each.text) for each in imported})
    if is_new:
        _check(value)
    for node, reference in _references(root, 0):
        try:
            node.resolver.lookup(reference)
            node.followed(through=True)
        except (Unresolvable, ValueError) as error:
            raise InvalidSchema(
                f"Invalid schema: the $ref {reference!r} is neither in the schema nor among its "
                f"references, and nothing is fetched ({type(error).__name__})"[:700]
            ) from None
    if is_new:
        steps.check(root)
    return JsonSchema(value, root)


def _value(text: str, *, is_new: bool = False) -> object:
    value = bounds.json_of(text, is_new=is_new)
    if not isinstance(value, dict | bool):
        raise InvalidSchema("Invalid schema: a JSON Schema is an object, true or false")
    return value


def _check(value: object) -> None:
    if not isinstance(value, dict):
        return
    validator = validator_for(value, default=Draft7Validator)
    try:
        validator.check_schema(value)
    except SchemaError as error:
        where = "/".join(str(each) for each in error.absolute_path)
        raise InvalidSchema(f"Invalid schema: at #/{where}: {error.message}"[:700]) from None


def _references(node: Node, depth: int) -> Iterator[tuple[Node, str]]:
    """Every `$ref` of a document, with the place that it is relative to."""
    value = node.value
    if isinstance(value, dict):
        node = node.settled()
        found = value.get("$ref", value.get("$dynamicRef"))
        if isinstance(found, str):
            yield node, found
        for key, each in value.items():
            if key not in _DATA:
                yield from _references(node.inside(each), depth + 1)
    elif isinstance(value, list):
        for each in value:
            yield from _references(node.inside(each), depth + 1)
