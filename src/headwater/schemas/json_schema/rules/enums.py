"""Values that a schema names one by one: what is narrower in the reader's, and what takes each; pure."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.schemas.json_schema.rules.attributes import (
    enum_values,
    is_as_restricted,
    is_of,
    number_of,
)
from headwater.schemas.json_schema.rules.keywords import Allows
from headwater.schemas.json_schema.shapes import KEYWORDS, SEVERAL, TYPES, Shape, types_of

_LEAST, _MOST = ("minLength", "minimum"), ("maxLength", "maximum")


def narrower(was: Shape, now: Shape, path: str) -> Iterator[tuple[str, str]]:
    """As the name of a rule and a path."""
    before, after = enum_values(was).keys(), enum_values(now).keys()
    if not before <= after or not is_as_restricted(was, now):
        yield "ENUM_ARRAY_NARROWED" if after <= before else "ENUM_ARRAY_CHANGED", f"{path}/enum"


def takes_each(was: Shape, now: Shape, path: str, allows: Allows) -> bool:
    """Whether every value that an enum names is allowed by what names none."""
    values = [*enum_values(was).values()]
    if all(_takes(each, now) for each in values):
        return True
    if len(values) < 2 or now.kind not in SEVERAL:
        return False
    alone = [was.node.inside({**was.value, "enum": [each]}) for each in values]
    return all(allows(each, now.node, path) for each in alone)


def _takes(value: object, shape: Shape) -> bool:
    """Whether a shape of one type takes this very value; False: nobody knows."""
    if shape.kind not in TYPES or not any(is_of(value, kind) for kind in types_of(shape.value)):
        return False
    if isinstance(value, float) and shape.value.get("type") == "integer":
        return False  # 1.0 is one since draft 6
    words = [word for word in KEYWORDS.get(shape.kind, ()) if word in shape.value]
    return all(_is_within(value, word, number_of(shape, word)) for word in words)


def _is_within(value: object, word: str, bound: float | None) -> bool:
    size = len(value) if isinstance(value, str) else value
    if bound is None or not isinstance(size, int | float):
        return False
    return (word in _LEAST and size >= bound) or (word in _MOST and size <= bound)
