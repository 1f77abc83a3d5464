"""What a JSON Schema is, whatever words it was written in: one shape for each way to restrict a value; pure.

any         true, {}                      enum, const   `enum` (with a type beside it: `allOf` of both)
none        false                         not           `not`
string number boolean null object array   by `type`, or by the keywords of one
allOf anyOf oneOf                         several `type`s are `anyOf`; keywords beside others are `allOf`
"""

from __future__ import annotations

import re
from typing import NamedTuple, Protocol

from referencing import Resource, Specification
from referencing.jsonschema import DRAFT7

from headwater.schemas.errors import InvalidSchema

TYPES = ("string", "number", "integer", "boolean", "null", "object", "array")
SEVERAL = ("allOf", "anyOf", "oneOf")
KEYWORDS = {
    "object": ("properties", "required", "additionalProperties", "patternProperties", "minProperties",
               "maxProperties", "dependencies", "dependentRequired", "dependentSchemas",
               "propertyNames", "unevaluatedProperties"),
    "array": ("items", "additionalItems", "prefixItems", "minItems", "maxItems", "uniqueItems",
              "contains", "minContains", "maxContains", "unevaluatedItems"),
    "string": ("minLength", "maxLength", "pattern"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}  # fmt: skip
_ANNOTATIONS = frozenset(
    ("$ref", "$schema", "$id", "$comment", "$anchor", "$defs", "definitions", "title", "description",
     "default", "examples", "deprecated", "readOnly", "writeOnly", "format")
)  # fmt: skip
PART = "$part"
"""Beside the keywords of a schema of which others were taken apart."""
APPLIED = (*SEVERAL, "$ref", "if")
"""Keywords by which a value meets more schemas than the one that it stands beside."""
_HOPS_MAX = 100
_DRAFT = re.compile(
    r"https?://json-schema\.org/(?:draft-0(?P<old>[3467])|draft/(?P<new>2019-09|2020-12))/schema#?"
)


OLD_DRAFTS = ("3", "4", "6", "7")


def draft_of(document: object) -> str:
    """4, 6, 7, 2019-09, 2020-12; empty: none was declared; of its own: as it is."""
    given = document.get("$schema") if isinstance(document, dict) else None
    if not isinstance(given, str):
        return ""
    found = _DRAFT.fullmatch(given)
    return found["old"] or found["new"] if found else given


class Resolver(Protocol):
    """What of the library's is used here."""

    def lookup(self, ref: str) -> Resolved: ...
    def in_subresource(self, subresource: Resource[object]) -> Resolver: ...


class Resolved(Protocol):
    @property
    def contents(self) -> object: ...
    @property
    def resolver(self) -> Resolver: ...


class Node(NamedTuple):
    """A part of a document, and what its references are relative to."""

    value: object
    resolver: Resolver
    draft: str = ""
    """Of `$schema`, as in `draft_of`."""
    is_settled: bool = False
    """Its own `$id` counts in the resolver: a relative one must count once."""

    @property
    def has_siblings(self) -> bool:
        """Whether what stands beside a `$ref` counts: since draft 2019-09, or where none was declared."""
        return self.draft not in OLD_DRAFTS

    def inside(self, value: object) -> Node:
        return Node(value, self.resolver, self.draft)

    def settled(self) -> Node:
        """With the base that an `$id` of its own gives it."""
        has_own = isinstance(self.value, dict) and isinstance(self.value.get("$id"), str)
        if self.is_settled or not has_own:
            return self
        specification: Specification[object] = DRAFT7
        inside = self.resolver.in_subresource(specification.create_resource(self.value))
        return Node(self.value, inside, self.draft, is_settled=True)

    def target(self, reference: str) -> Node:
        """Where a `$ref` here leads."""
        found = self.resolver.lookup(reference)
        return Node(found.contents, found.resolver, self.draft, is_settled=True)

    def followed(self, *, through: bool = False) -> Node:
        """Where its `$ref` leads, in the end; up to one with more beside it, or through. InvalidSchema: to
        itself.
        """
        node = self.settled()
        for _ in range(_HOPS_MAX):
            value = node.value
            reference = value.get("$ref") if isinstance(value, dict) else None
            is_last = self.has_siblings and not through and restricts_beside(value)
            if not isinstance(reference, str) or is_last:
                return node
            node = node.target(reference)
        raise InvalidSchema("Invalid schema: a $ref leads to itself")

    def alone(self) -> Node:
        """Where its `$ref` leads, and out of each `allOf`, `anyOf` and `oneOf` of nothing but it."""
        node = self.followed()
        for _ in range(_HOPS_MAX):
            word = only_word(node.value)
            if word is None or not isinstance(node.value, dict):
                break
            node = node.inside(node.value[word][0]).followed()
        return node


def only_word(value: object) -> str | None:
    """`allOf`, `anyOf` or `oneOf`, where it has one part and nothing beside it restricts anything."""
    if not isinstance(value, dict):
        return None
    words = [
        each for each in value if each not in _ANNOTATIONS or each in ("$ref", "$id", "format")
    ]
    several = value.get(words[0]) if len(words) == 1 and words[0] in SEVERAL else None
    return words[0] if isinstance(several, list) and len(several) == 1 else None


def restricts_beside(value: object) -> bool:
    """Whether anything beside its `$ref` may."""
    return isinstance(value, dict) and not _ANNOTATIONS.issuperset(value)


class Shape(NamedTuple):
    kind: str
    node: Node
    parts: tuple[Node, ...] = ()
    """Of allOf, anyOf and oneOf."""

    @property
    def value(self) -> dict[str, object]:
        return self.node.value if isinstance(self.node.value, dict) else {}


def shape_of(node: Node) -> Shape:
    node = node.followed()
    value = node.value
    if not isinstance(value, dict):
        return Shape("none" if value is False else "any", node)
    parts = _parts(node, value)
    if not parts:
        return Shape("any", node)
    if len(parts) == 1 and parts[0].kind == "$ref":
        return shape_of(_as_node(parts[0]))
    return (
        parts[0]
        if len(parts) == 1
        else Shape("allOf", node, tuple(_as_node(each) for each in parts))
    )


def _parts(node: Node, value: dict[str, object]) -> list[Shape]:
    found = [Shape("$ref", node)] if isinstance(value.get("$ref"), str) else []
    for word in SEVERAL:
        several = value.get(word)
        if isinstance(several, list):
            found.append(Shape(word, node, tuple(node.inside(each) for each in several)))
    if "not" in value:
        found.append(Shape("not", node, (node.inside(value["not"]),)))
    kinds = types_of(value)
    if "enum" in value or "const" in value:
        found.append(Shape("enum", node))  # with its types, and all that stands beside it
    elif len(kinds) == 1:
        found.append(Shape(_plain(kinds[0]), node))
    elif kinds:
        parts = tuple(node.inside(_of_one_type(value, kind)) for kind in kinds)
        found.append(Shape("anyOf", node, parts))
    return found


def types_of(value: dict[str, object]) -> list[str]:
    given = value.get("type")
    if isinstance(given, str):
        return [given]
    if isinstance(given, list):
        return [each for each in given if each in TYPES]
    if "enum" in value or "const" in value:
        return []
    found = [kind for kind, words in KEYWORDS.items() if any(word in value for word in words)]
    return found if len(found) < 2 else [each for each in TYPES if each != "integer"]


def _plain(kind: str) -> str:
    return "number" if kind == "integer" else kind


def _of_one_type(value: dict[str, object], kind: str) -> dict[str, object]:
    words = KEYWORDS.get(_plain(kind), ())
    made = {"type": kind, **{word: value[word] for word in words if word in value}}
    return {**made, PART: True} if any(word in value for word in APPLIED) else made


def _as_node(shape: Shape) -> Node:
    """A part of several keywords as a schema of its own."""
    value = shape.value
    if shape.kind in SEVERAL:
        return shape.node.inside({shape.kind: [each.value for each in shape.parts]})
    if shape.kind == "$ref":
        return shape.node.inside({"$ref": value["$ref"]})
    if shape.kind == "not":
        return shape.node.inside({"not": value["not"]})
    apart = (
        (*SEVERAL, "not", "$ref")
        if shape.kind == "enum"
        else (*SEVERAL, "not", "enum", "const", "$ref")
    )
    kept = {word: each for word, each in value.items() if word not in apart}
    return shape.node.inside({**kept, PART: True})
