"""What the keywords of a shape say; pure."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from headwater.regex import BadRegex, Regex
from headwater.schemas.json_schema.shapes import APPLIED, KEYWORDS, PART, Node, Shape, types_of

_PLAIN = re.compile(r"(?:[^\\(]|\((?!\?)|\\[dDwW.$^+*?()\[\]{}|/_-])*", re.ASCII)
"""An expression that means the same to all: no look-around, no letters beyond the plain ones."""
_OF_TYPE = {"string": str, "boolean": bool, "object": dict, "array": list, "null": type(None)}


def enum_values(shape: Shape) -> dict[str, object]:
    """Those that its type allows, and both where `enum` and `const` stand side by side: by a text that is the
    same for what JSON Schema calls equal."""
    value, kinds = shape.value, types_of(shape.value)
    given = [
        {_same_text(item): item for item in _allowed(each, kinds)}
        for each in (value.get("enum"), [value["const"]] if "const" in value else None)
        if isinstance(each, list)
    ]
    if not given:
        return {}
    return {text: item for text, item in given[0].items() if all(text in each for each in given)}


def _same_text(value: object) -> str:
    """Whole numbers are equal however they are written, and objects in whatever order."""
    return json.dumps(_settled(value), sort_keys=True)


def _settled(value: object) -> object:
    if isinstance(value, dict):
        return {name: _settled(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_settled(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _allowed(values: list[object], kinds: list[str]) -> list[object]:
    return [each for each in values if not kinds or any(is_of(each, kind) for kind in kinds)]


def is_of(value: object, kind: str) -> bool:
    """Whether it is of this type."""
    if kind in _OF_TYPE:
        return isinstance(value, _OF_TYPE[kind])
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return kind == "number" or value == int(value)


def is_as_restricted(was: Shape, now: Shape) -> bool:
    """Whether beside an enum nothing stands that the other's has not."""
    words = [word for each in KEYWORDS.values() for word in each if word in now.value]
    return all(word in was.value and was.value[word] == now.value[word] for word in words)


def is_untyped(shape: Shape) -> bool:
    """Whether its keywords are of one type, and values of others are allowed."""
    return shape.kind in KEYWORDS and "type" not in shape.value


def is_typed(shape: Shape) -> bool:
    return shape.kind in KEYWORDS and "type" in shape.value


def number_of(shape: Shape, word: str) -> float | None:
    found = shape.value.get(word)
    return found if isinstance(found, int | float) and not isinstance(found, bool) else None


def texts_of(shape: Shape, word: str) -> set[str]:
    found = shape.value.get(word)
    return {each for each in found if isinstance(each, str)} if isinstance(found, list) else set()


def properties_of(shape: Shape) -> dict[str, object]:
    found = shape.value.get("properties")
    return found if isinstance(found, dict) else {}


def has_default(node: Node) -> bool:
    return isinstance(node.value, dict) and "default" in node.value


def needs_of(shape: Shape) -> dict[tuple[str, bool, str], object]:
    """(the keyword, whether it is a list of names, the property) → what it needs.

    By their keywords, as not every draft knows each of them.
    """
    found: dict[tuple[str, bool, str], object] = {}
    for word in ("dependencies", "dependentRequired", "dependentSchemas"):
        given = shape.value.get(word)
        for name, each in given.items() if isinstance(given, dict) else ():
            found[word, isinstance(each, list), name] = each
    return found


def patterns_of(shape: Shape) -> dict[str, object]:
    found = shape.value.get("patternProperties")
    return found if isinstance(found, dict) else {}


def rest_of_properties(shape: Shape, *, of_writer: bool) -> object:
    """What properties have to meet that have no schema of their own.

    `unevaluatedProperties` does not reach those that other parts of the schema name: of the writer's it
    counts where there are no others.
    """
    value = shape.value
    if "additionalProperties" in value:
        return value["additionalProperties"]
    has_others = PART in value or any(word in value for word in APPLIED)
    return True if of_writer and has_others else value.get("unevaluatedProperties", True)


def is_open(shape: Shape, *, of_writer: bool) -> bool:
    return not patterns_of(shape) and rest_of_properties(shape, of_writer=of_writer) in (True, {})


class Covering(NamedTuple):
    """What a property without a schema of its own meets."""

    sure: list[Node]
    """All of them."""
    perhaps: list[Node]
    """Of expressions that are not run here: nobody knows whether they find the name."""
    rest: Node
    """Where no expression does."""


def covering(shape: Shape, name: str, *, of_writer: bool) -> Covering:
    sure, perhaps = list[Node](), list[Node]()
    for pattern, found in patterns_of(shape).items():
        is_found = finds(pattern, name)
        if is_found is not False:
            (perhaps if is_found is None else sure).append(shape.node.inside(found))
    more = rest_of_properties(shape, of_writer=of_writer)
    return Covering(sure, perhaps, shape.node.inside(more))


def finds(pattern: str, name: str) -> bool | None:
    """None: only back-tracking could tell, or readers do not agree on what it means."""
    if not _PLAIN.fullmatch(pattern) or not name.isascii():
        return None
    try:
        return bool(Regex(pattern).finds(name))
    except BadRegex:
        return None


def prefix_of(shape: Shape) -> list[Node]:
    found = shape.value.get("prefixItems", shape.value.get("items"))
    return [shape.node.inside(each) for each in found] if isinstance(found, list) else []


def rest_of(shape: Shape, *, of_writer: bool) -> Node:
    """What items have to meet that have no schema of their own."""
    value, items = shape.value, shape.value.get("items")
    unevaluated = True if of_writer else value.get("unevaluatedItems", True)
    if "prefixItems" not in value and isinstance(items, list):
        return shape.node.inside(value.get("additionalItems", unevaluated))
    return shape.node.inside(value.get("items", unevaluated))
