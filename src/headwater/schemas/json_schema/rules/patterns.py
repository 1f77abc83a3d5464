"""`patternProperties`: what is narrower in the reader's; pure."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.schemas.json_schema.rules.attributes import (
    finds,
    patterns_of,
    properties_of,
    rest_of_properties,
)
from headwater.schemas.json_schema.rules.keywords import Allows
from headwater.schemas.json_schema.shapes import Node, Shape


def narrower(was: Shape, now: Shape, path: str, allows: Allows) -> Iterator[tuple[str, str]]:
    """Each as the name of a rule and a path."""
    before, after = patterns_of(was), patterns_of(now)
    for pattern, schema in after.items():
        here, wanted = f"{path}/patternProperties/{pattern}", now.node.inside(schema)
        if pattern in before:
            if not allows(was.node.inside(before[pattern]), wanted, here):
                yield "PATTERN_PROPERTY_CHANGED", here
        elif not all(allows(each, wanted, here) for each in _met(was, pattern)):
            yield "PATTERN_PROPERTY_ADDED", here
    rest = now.node.inside(rest_of_properties(now, of_writer=False))
    for pattern in [each for each in before if each not in after]:
        here = f"{path}/patternProperties/{pattern}"
        if not allows(was.node.inside(before[pattern]), rest, here):
            yield "PATTERN_PROPERTY_REMOVED", here


def _met(was: Shape, pattern: str) -> Iterator[Node]:
    """What properties of such names may be by the writer's schema."""
    for name, schema in properties_of(was).items():
        if finds(pattern, name) is not False:
            yield was.node.inside(schema)
    for schema in patterns_of(was).values():
        yield was.node.inside(schema)
    yield was.node.inside(rest_of_properties(was, of_writer=True))
