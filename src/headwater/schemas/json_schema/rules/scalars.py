"""Texts, numbers and enums, and how many there are of something: what is narrower in the reader's; pure.

Each gives the names of rules with their paths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headwater.schemas.json_schema.rules import enums
from headwater.schemas.json_schema.rules.attributes import number_of
from headwater.schemas.json_schema.shapes import Shape

Found = Iterator[tuple[str, str]]


def string(was: Shape, now: Shape, path: str) -> Found:
    yield from bounds(was, now, path, "maxLength", "minLength")
    before, after = was.value.get("pattern"), now.value.get("pattern")
    if before != after and after is not None:
        yield "PATTERN_ADDED" if before is None else "PATTERN_CHANGED", f"{path}/pattern"


def number(was: Shape, now: Shape, path: str) -> Found:
    yield from bounds(was, now, path, "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum")
    before, after = number_of(was, "multipleOf"), number_of(now, "multipleOf")
    if after is not None and before != after:
        here = f"{path}/multipleOf"
        if before is None:
            yield "MULTIPLE_OF_ADDED", here
        elif not _is_multiple(before, after):
            is_more = _is_multiple(after, before)
            yield "MULTIPLE_OF_EXPANDED" if is_more else "MULTIPLE_OF_CHANGED", here
    if now.value.get("type") == "integer" and was.value.get("type") != "integer":
        yield "TYPE_NARROWED", path


def bounds(was: Shape, now: Shape, path: str, *words: str) -> Found:
    for word in words:
        before, after = number_of(was, word), number_of(now, word)
        if after is None or before == after:
            continue
        is_most = "max" in word.lower()
        name = "".join(f"_{each}" if each.isupper() else each for each in word).upper()
        if before is None:
            yield f"{name}_ADDED", f"{path}/{word}"
        elif (after < before) == is_most:
            yield f"{name}_{'DECREASED' if is_most else 'INCREASED'}", f"{path}/{word}"


def _is_multiple(number: float, of: float) -> bool:
    """As whole numbers: validators do not agree on others."""
    return isinstance(number, int) and isinstance(of, int) and of > 0 and number % of == 0


RULES: dict[str, Callable[[Shape, Shape, str], Found]] = {
    "string": string,
    "number": number,
    "enum": enums.narrower,
}
