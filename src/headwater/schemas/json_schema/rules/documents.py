"""What is asked of two JSON Schemas as wholes: their drafts, and words that reach across a document; pure."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.schemas.json_schema.parts import parts_of
from headwater.schemas.json_schema.rules.keywords import is_same
from headwater.schemas.json_schema.shapes import OLD_DRAFTS, Node, restricts_beside

_ACROSS = ("$dynamicRef", "$recursiveRef")
"""Where these lead is decided by who refers to the schema: they mean the same only in the same document."""
_DIFFERENT = frozenset((
    "contains", "if", "then", "else", "format", "contentEncoding", "contentMediaType", "dependencies",
    "dependentRequired", "dependentSchemas", "prefixItems", "additionalItems", "unevaluatedItems",
    "unevaluatedProperties", "minContains", "maxContains", "extends", "disallow", "divisibleBy",
    "$anchor", "id",
))  # fmt: skip
_LOOSENED = ("format", "contentEncoding", "contentMediaType")
"""Not checked any more since draft 2019-09."""
_TURNING = ("not", "oneOf")
"""Where less is checked inside of these, less is allowed."""
_SAME_DRAFTS = ("6", "7", "2019-09", "2020-12")


def narrower(was: Node, now: Node) -> Iterator[tuple[str, str]]:
    """Each as the name of a rule and a path."""
    nodes = [part.node for each in (was, now) for part in parts_of(each)[0]]
    values = [each.value for each in nodes if isinstance(each.value, dict)]
    if any(word in each for each in values for word in _ACROSS) or any(
        "$schema" in each and each is not was.value and each is not now.value for each in values
    ):
        if not is_same(was, now, set()):
            yield "DYNAMIC_REF_CHANGED", "#/"
    if was.draft != now.draft and not _are_alike(was.draft, now.draft, values):
        yield "DRAFT_CHANGED", "#/$schema"


def _are_alike(was: str, now: str, values: list[dict[str, object]]) -> bool:
    """Whether these schemas mean the same in both drafts, or less is checked in the second."""
    if was not in _SAME_DRAFTS or now not in _SAME_DRAFTS:
        return False
    is_turned = any(word in each for each in values for word in _TURNING)
    is_loosened = was in OLD_DRAFTS and now not in OLD_DRAFTS and not is_turned
    return not any(
        (word in _DIFFERENT and not (is_loosened and word in _LOOSENED))
        or (word == "items" and isinstance(given, list))
        or (word == "$ref" and restricts_beside(value))
        for value in values
        for word, given in value.items()
    )
