"""Keywords that restrict values and that no shape tells of; pure. `compatibility` asks, for each pair.

One that only the reader has makes it narrower. One that both have is the same, or it is narrower for all that
is known: nobody looks through `if`. What is not evaluated depends on all that stands beside it, which has to
be the same, too, but for properties that come. A keyword that the draft does not have is passed over by who
checks values, while shapes know it: where one stands, all beside it has to be the same.

Every keyword of every draft is in `shapes`, here, or says nothing of values; others are annotations, as the
specification has it (2020-12, 6.5).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress

from referencing.exceptions import Unresolvable

from headwater.schemas.json_schema.shapes import OLD_DRAFTS, Node

Allows = Callable[[Node, Node, str], bool]
_SCHEMAS = ("if", "then", "else", "contains", "propertyNames", "unevaluatedProperties",
            "unevaluatedItems")  # fmt: skip
_VALUES = ("$dynamicRef", "$recursiveRef", "extends", "disallow", "divisibleBy")
_OLD_VALUES = ("format", "contentEncoding", "contentMediaType")
"""Checked up to draft 7, and annotations since."""
_MISSING_IN = {
    **dict.fromkeys(
        OLD_DRAFTS,
        ("prefixItems", "dependentRequired", "dependentSchemas", "unevaluatedProperties",
         "unevaluatedItems", "minContains", "maxContains", "$dynamicRef", "$recursiveRef"),
    ),
    "4": ("prefixItems", "dependentRequired", "dependentSchemas", "unevaluatedProperties",
          "unevaluatedItems", "const", "contains", "propertyNames", "if", "then", "else"),
    "6": ("prefixItems", "dependentRequired", "dependentSchemas", "unevaluatedProperties",
          "unevaluatedItems", "if", "then", "else", "minContains", "maxContains"),
    "2019-09": ("prefixItems", "dependencies"),
    "2020-12": ("additionalItems", "dependencies"),
}  # fmt: skip
_EVALUATING = {
    "unevaluatedProperties": ("additionalProperties", "patternProperties", "allOf", "anyOf", "oneOf", "if",
                              "then", "else", "$ref", "dependentSchemas", "dependencies", "not"),
    "unevaluatedItems": ("items", "prefixItems", "contains", "allOf", "anyOf", "oneOf", "if", "then",
                         "else", "$ref", "not"),
}  # fmt: skip
_FLAGS = ("exclusiveMinimum", "exclusiveMaximum")
"""In draft 4."""
_HARMLESS: tuple[object, ...] = (True, {})


def narrower(was: Node, now: Node, path: str, allows: Allows) -> Iterator[tuple[str, str]]:
    """Each as the name of a rule and a path."""
    if was.value is False or not isinstance(now.value, dict):
        return
    before: dict[str, object] = was.value if isinstance(was.value, dict) else {}
    for word in _MISSING_IN.get(now.draft, ()):
        if (word in before or word in now.value) and not is_same(was, now, set()):
            yield f"{_name(word)}_CHANGED", f"{path.rstrip('/')}/{word}"
    if "contains" in now.value and "contains" in before:
        yield from _counts(before, now.value, path)
    for word, value in now.value.items():
        here = f"{path.rstrip('/')}/{word}"
        if _is_idle(word, now) or (word not in before and _is_harmless(word, value)):
            continue
        if word not in before:
            yield f"{_name(word)}_ADDED", here
        elif not _is_kept(
            word,
            was.inside(before[word]),
            now.inside(value),
            here,
            allows,
            is_counted="maxContains" in now.value,
        ) or not all(_is_same_word(each, was, now) for each in _EVALUATING.get(word, ())):
            yield f"{_name(word)}_CHANGED", here


def _is_same_word(word: str, was: Node, now: Node) -> bool:
    """The word goes with its value, as a `$ref` is one only by that."""
    return is_same(was.inside(_only(word, was.value)), now.inside(_only(word, now.value)), set())


def _only(word: str, value: object) -> dict[str, object]:
    return {word: value[word]} if isinstance(value, dict) and word in value else {}


def _counts(
    before: dict[str, object], after: dict[str, object], path: str
) -> Iterator[tuple[str, str]]:
    """How many items have to be such: one, where nothing is said, and any more."""
    least = before.get("minContains", 1), after.get("minContains", 1)
    most = before.get("maxContains", math.inf), after.get("maxContains", math.inf)
    numbers = [each for each in (*least, *most) if isinstance(each, int | float)]
    if len(numbers) < 4 or numbers[1] > numbers[0]:
        yield "MIN_CONTAINS_CHANGED", f"{path.rstrip('/')}/minContains"
    if len(numbers) < 4 or numbers[3] < numbers[2]:
        yield "MAX_CONTAINS_CHANGED", f"{path.rstrip('/')}/maxContains"


def _is_idle(word: str, node: Node) -> bool:
    """Whether it restricts nothing here, or others tell of it."""
    assert isinstance(node.value, dict)
    if word in ("then", "else"):
        return "if" not in node.value
    if word == "if":
        return "then" not in node.value and "else" not in node.value
    if word in _FLAGS:
        return node.value[word] is not True
    if word in _OLD_VALUES:
        return node.draft not in OLD_DRAFTS
    return word not in (*_SCHEMAS, *_VALUES)


def _is_harmless(word: str, value: object) -> bool:
    is_counted = word in ("if", "contains", *_VALUES, *_OLD_VALUES, *_FLAGS)
    return value in _HARMLESS and not is_counted


def _is_kept(
    word: str, was: Node, now: Node, path: str, allows: Allows, *, is_counted: bool
) -> bool:
    """`is_counted`: so many items may be such, and no more."""
    if word not in _SCHEMAS:
        return was.value == now.value
    if word == "propertyNames" or (word == "contains" and not is_counted):
        return allows(was, now, path)
    return is_same(was, now, set())


def is_same(was: Node, now: Node, seen: set[tuple[int, int]]) -> bool:
    """Whether two schemas are one to the letter, with all that they refer to."""
    before, after, pair = was.value, now.value, (id(was.value), id(now.value))
    if type(before) is not type(after):
        return False
    if pair in seen or not isinstance(before, dict | list):
        return pair in seen or before == after
    seen.add(pair)
    if isinstance(before, list) and isinstance(after, list):
        return len(before) == len(after) and all(
            is_same(was.inside(one), now.inside(other), seen)
            for one, other in zip(before, after, strict=True)
        )
    was, now = was.settled(), now.settled()
    assert isinstance(before, dict) and isinstance(after, dict)
    return before.keys() == after.keys() and all(
        is_same(*_behind(was, now, word), seen) for word in before
    )


def _behind(was: Node, now: Node, word: str) -> tuple[Node, Node]:
    both = [each.inside(each.value[word]) for each in (was, now) if isinstance(each.value, dict)]
    if word == "$ref" and all(isinstance(each.value, str) for each in both):
        with suppress(Unresolvable):  # or it is a property of that name
            both = [each.target(str(each.value)) for each in both]
    return both[0], both[1]


def _name(word: str) -> str:
    spelt = "".join(f"_{each}" if each.isupper() else each for each in word)
    return spelt.lstrip("$").upper()
