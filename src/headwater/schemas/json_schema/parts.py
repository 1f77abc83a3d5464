"""The schemas of a document as a graph: what each applies to its own value, and what to those inside; pure.

`steps` asks, which goes along a value from one `State` to the next. Every keyword that
applies a schema stands here; one that stands nowhere applies none.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from referencing.exceptions import Unresolvable

from headwater.regex import BadRegex, Regex
from headwater.schemas.json_schema.shapes import Node

_HERE_ONE = ("not", "if", "then", "else")
_HERE_MANY = ("allOf", "anyOf", "oneOf")
_HERE_NAMED = ("dependentSchemas", "dependencies")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_ANCHORS = ("$dynamicAnchor", "$recursiveAnchor")
_HOMES = ("$defs", "definitions")


_VALUES = ("enum", "const")
_EVALUATING = ("unevaluatedProperties", "unevaluatedItems")
_BACKTRACKING_STEPS = 2_500
_EXPRESSION_SHARE = 8
LETTERS_OF_A_STEP = 128


class Patterns(NamedTuple):
    """Expressions that run on one text."""

    size: int = 0
    """Instructions, of all together."""
    backtracking: int = 0
    """How many have to go back."""

    def plus(self, more: Patterns, times: int) -> Patterns:
        return Patterns(
            self.size + more.size * times, self.backtracking + more.backtracking * times
        )

    def steps(self, letters: int, times: int = 1) -> float:
        """On a text of so many letters, or on so many texts that have them together."""
        back = times * _BACKTRACKING_STEPS + letters * letters / LETTERS_OF_A_STEP
        return self.size * letters / _EXPRESSION_SHARE + (
            self.backtracking and self.backtracking * back
        )

    def or_more(self, *others: Patterns) -> Patterns:
        both = (self, *others)
        return Patterns(max(each.size for each in both), max(each.backtracking for each in both))


class Part:
    """One schema. Others are known by their numbers."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.here: list[int] = []
        self.named: dict[object, int] = {}
        """Of a property, or of an item that has a schema of its own."""
        self.members: list[int] = []
        """Of every property; and of every other one: `other_members`."""
        self.other_members: list[int] = []
        self.items: list[int] = []
        self.other_items: list[int] = []
        self.own, self.names = Patterns(), Patterns()
        value = node.value if isinstance(node.value, dict) else {}
        self.weight = 1 + sum(
            _size(each) if word in _VALUES else len(each)
            for word, each in value.items()
            if word not in _HOMES and isinstance(each, list | dict)
        )
        self.is_evaluating = any(word in value for word in _EVALUATING)
        self.is_unique = value.get("uniqueItems") is True

    def inside(self, word: object) -> Iterator[int]:
        """What meets the property or the item of this name; None and -1: of another."""
        is_member = word is None or isinstance(word, str)
        yield from self.members if is_member else self.items
        if word in self.named:
            yield self.named[word]
        else:
            yield from self.other_members if is_member else self.other_items


class State:
    """Which parts meet a place, and how often."""

    def __init__(self, met: Mapping[int, int], parts: Sequence[Part], links: int) -> None:
        self.met, self.links = met, links
        self.known = frozenset(met.items())
        self.next: dict[object, State] = {}
        self.count = sum(met.values())
        self.unique = 0
        """How often all that is inside is made a number of, to find what stands twice."""
        weight, own, names = 0, Patterns(), Patterns()
        for number, times in met.items():
            part = parts[number]
            weight += times * part.weight
            self.unique += times * part.is_unique
            own, names = own.plus(part.own, times), names.plus(part.names, times)
        self.weight, self.own, self.names = weight, own, names
        self.words: dict[object, list[int]] = {}
        """Properties and items that parts know, and those parts."""
        for number in met:
            for word in parts[number].named:
                self.words.setdefault(word, []).append(number)
        self._parts = parts
        self._others = {word: self._met_by_others(word) for word in (None, -1)}

    def _met_by_others(self, word: object) -> Counter[int]:
        found: Counter[int] = Counter()
        for number, times in self.met.items():
            for each in self._parts[number].inside(word):
                found[each] += times
        return found

    def met_inside(self, word: object) -> Counter[int]:
        """None: a property that no part knows; -1: such an item."""
        other = None if word is None or isinstance(word, str) else -1
        found = self._others[other].copy()
        for number in self.words.get(word, ()):
            part, times = self._parts[number], self.met[number]
            for each in part.inside(other):
                found[each] -= times
            for each in part.inside(word):
                found[each] += times
        return +found


class _Graph:
    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.anchors: dict[str, list[int]] = {}
        self.dynamic: list[tuple[Part, str]] = []
        self._known: dict[int, int] = {}
        self._waiting: deque[Part] = deque()

    def add(self, node: Node) -> int | None:
        """Its number; None: true, false, or no schema at all."""
        node = node.settled()
        if not isinstance(node.value, dict):
            return None
        found = self._known.get(id(node.value))
        if found is None:
            found = self._known[id(node.value)] = len(self.parts)
            self.parts.append(Part(node))
            self._waiting.append(self.parts[-1])
        return found

    def read(self) -> None:
        while self._waiting:
            self._read(self._waiting.popleft())
        for part, name in self.dynamic:
            part.here += self.anchors.get(name, ())

    def _into(self, numbers: list[int], node: Node, value: object) -> None:
        found = self.add(node.inside(value))
        if found is not None:
            numbers.append(found)

    def _read(self, part: Part) -> None:
        node, value = part.node, part.node.value
        assert isinstance(value, dict)
        for word in _HERE_ONE:
            self._into(part.here, node, value.get(word))
        for word in _HERE_MANY:
            for each in _list(value.get(word)):
                self._into(part.here, node, each)
        for word in _HERE_NAMED:
            for each in _dict(value.get(word)).values():
                self._into(part.here, node, each)
        for word in _HOMES:
            for each in _dict(value.get(word)).values():
                self.add(node.inside(each))
        self._references(part, value)
        self._members(part, value)
        self._items(part, value)

    def _references(self, part: Part, value: dict[str, object]) -> None:
        number = self._known[id(value)]
        for word in _ANCHORS:
            if value.get(word) not in (None, False):
                self.anchors.setdefault(str(value[word]), []).append(number)
        for word in _REFERENCES:
            reference = value.get(word)
            if not isinstance(reference, str):
                continue
            if word != "$ref":
                name = "True" if word == "$recursiveRef" else reference.rpartition("#")[2]
                self.dynamic.append((part, name))
            try:
                found = self.add(part.node.target(reference))
            except (Unresolvable, ValueError):
                continue  # whoever checks values says so
            if found is not None:
                part.here.append(found)

    def _members(self, part: Part, value: dict[str, object]) -> None:
        for name, each in _dict(value.get("properties")).items():
            found = self.add(part.node.inside(each))
            if found is not None:
                part.named[name] = found
        for pattern, each in _dict(value.get("patternProperties")).items():
            part.names = part.names.plus(_patterns(pattern), 1)
            self._into(part.members, part.node, each)
        self._into(part.members, part.node, value.get("propertyNames"))
        for word in ("additionalProperties", "unevaluatedProperties"):
            self._into(part.other_members, part.node, value.get(word))
        part.own = _patterns(value.get("pattern"))

    def _items(self, part: Part, value: dict[str, object]) -> None:
        items = value.get("items")
        for word in ("prefixItems", "items"):
            for index, each in enumerate(_list(value.get(word))):
                found = self.add(part.node.inside(each))
                if found is not None:
                    part.named[index] = found
        self._into(part.items, part.node, value.get("contains"))
        for each in (items, value.get("additionalItems"), value.get("unevaluatedItems")):
            self._into(part.other_items, part.node, each)


def parts_of(root: Node) -> tuple[list[Part], int | None]:
    """All that are reached, and the root's number."""
    graph = _Graph()
    first = graph.add(root)
    graph.read()
    return graph.parts, first


def _patterns(expression: object) -> Patterns:
    if not isinstance(expression, str):
        return Patterns()
    try:
        return Patterns(size=Regex(expression).steps(["a"]))
    except BadRegex:
        return Patterns(backtracking=1)


def _size(value: object) -> int:
    """Of a value in a schema, with all that is in it: another one may be equal up to its end."""
    inner = value.values() if isinstance(value, dict) else _list(value)
    return 1 + sum(_size(each) for each in inner)


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _dict(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}
