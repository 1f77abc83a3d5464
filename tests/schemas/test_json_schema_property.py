"""Whenever two JSON Schemas are called compatible, what the old one takes the new one takes, too.

Schemas, changes of them and values come by chance; jsonschema-rs, which checks values, is the judge.
"""

from __future__ import annotations

import copy
import json
import os
import random

import jsonschema_rs
import pytest

from headwater.schemas import kinds
from headwater.schemas.errors import InvalidSchema

DRAFT_7, DRAFT_2020 = (
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2020-12/schema",
)
ROUNDS = int(os.environ.get("HEADWATER_SCHEMA_ROUNDS", "400"))
VALUES = 60
_SCALARS: tuple[object, ...] = (
    0,
    1,
    2,
    3,
    7,
    -1,
    1.5,
    "",
    "a",
    "ab",
    "abc",
    "x1",
    None,
    True,
    False,
)
_NAMES = ("a", "b", "x1")
_PATTERNS = ("^a", "^x", "1$", "^(?=a)", "^(?!a)", "b")


def leaf(chance: random.Random) -> dict[str, object]:
    kind = chance.randrange(9)
    if kind == 0:
        return {"type": chance.choice(["integer", "number", "string", "boolean", "null"])}
    if kind == 1:
        return {"type": sorted(chance.sample(["integer", "string", "null", "object", "array"], 2))}
    if kind == 2:
        return {"enum": chance.sample(list(_SCALARS[:6]), 3)}
    if kind == 3:
        return {"const": chance.choice(_SCALARS[:6])}
    if kind == 4:
        return {"minimum": chance.randrange(3), "maximum": chance.randrange(2, 8)}
    if kind == 5:
        return {
            "type": "string",
            "minLength": chance.randrange(3),
            "pattern": chance.choice(_PATTERNS),
        }
    if kind == 6:
        return {"type": "number", "multipleOf": chance.choice([1, 2, 0.5, 3])}
    if kind == 7:
        return {"exclusiveMinimum": chance.randrange(-1, 2)}
    return {}


class Schemas:
    def __init__(self, chance: random.Random, draft: str) -> None:
        self.chance, self.draft = chance, draft

    def root(self) -> dict[str, object]:
        return {"$schema": self.draft, "$defs": {"d": leaf(self.chance)}, **self.schema(2)}

    def schema(self, depth: int) -> dict[str, object]:
        made: dict[str, object] = {}
        for _ in range(self.chance.choice([1, 1, 1, 2, 3])):
            made |= self.words(depth)
        return made

    def any(self, depth: int) -> object:
        return (
            self.chance.choice([True, False]) if self.chance.random() < 0.1 else self.schema(depth)
        )

    def words(self, depth: int) -> dict[str, object]:
        chance = self.chance
        if depth == 0 or chance.random() < 0.25:
            return leaf(chance) if chance.random() < 0.9 else {"$ref": "#/$defs/d"}
        return chance.choice(self.makers())(depth - 1)

    def makers(self):
        new = self.draft == DRAFT_2020
        return [
            self.object, self.object, self.object, self.array, self.several, self.several,
            self.patterns, self.odd, self.contains, self.across,
            *((self.evaluated, self.dependent) if new else (self.dependencies, self.tuple)),
        ]  # fmt: skip

    def object(self, depth: int) -> dict[str, object]:
        chance = self.chance
        names = chance.sample(_NAMES, chance.randrange(1, 3))
        made: dict[str, object] = {"properties": {each: self.any(depth) for each in names}}
        if chance.random() < 0.7:
            made["type"] = "object"
        if chance.random() < 0.5:
            made["required"] = names[:1]
        if chance.random() < 0.5:
            made["additionalProperties"] = False if chance.random() < 0.6 else self.any(depth)
        return made

    def patterns(self, depth: int) -> dict[str, object]:
        made: dict[str, object] = {
            "type": "object",
            "patternProperties": {self.chance.choice(_PATTERNS): self.any(depth)},
        }
        if self.chance.random() < 0.6:
            made["additionalProperties"] = self.any(depth)
        if self.chance.random() < 0.4:
            made["properties"] = {self.chance.choice(_NAMES): self.any(depth)}
        return made

    def array(self, depth: int) -> dict[str, object]:
        made: dict[str, object] = {"type": "array", "items": self.any(depth)}
        word = self.chance.choice(["minItems", "maxItems", "uniqueItems", ""])
        return {**made, word: word == "uniqueItems" or self.chance.randrange(3)} if word else made

    def tuple(self, depth: int) -> dict[str, object]:
        made: dict[str, object] = {"items": [self.any(depth) for _ in range(2)]}
        return {**made, "additionalItems": self.any(depth)} if self.chance.random() < 0.6 else made

    def several(self, depth: int) -> dict[str, object]:
        word = self.chance.choice(["allOf", "anyOf", "oneOf", "not"])
        if word == "not":
            return {"not": self.any(depth)}
        return {word: [self.schema(depth) for _ in range(self.chance.randrange(1, 4))]}

    def odd(self, depth: int) -> dict[str, object]:
        chance = self.chance
        return chance.choice([
            lambda: {"if": self.any(depth), "then": self.any(depth), "else": self.any(depth)},
            lambda: {"enum": list(_SCALARS[:5]), "const": chance.choice(_SCALARS[:5])},
            lambda: {"propertyNames": leaf(chance)},
            lambda: {"format": chance.choice(["date", "ipv4", "email"])},
            lambda: {"minProperties": chance.randrange(3), "maxProperties": chance.randrange(1, 4)},
            lambda: {"title": chance.choice("ab"), "x-own": chance.randrange(3)},
        ])()  # fmt: skip

    def contains(self, depth: int) -> dict[str, object]:
        made: dict[str, object] = {"contains": self.any(depth)}
        for word in ("minContains", "maxContains"):
            if self.draft == DRAFT_2020 and self.chance.random() < 0.5:
                made[word] = self.chance.randrange(3)
        return made

    def across(self, depth: int) -> dict[str, object]:
        """What means something in some drafts only, or by who refers to it."""
        return self.chance.choice([
            lambda: {"$dynamicRef": "#n"},
            lambda: {"$dynamicAnchor": "n", **self.schema(depth)},
            lambda: {"$ref": "#/$defs/d", **self.schema(depth)},
            lambda: {"minimum": 1, "exclusiveMinimum": True},
            lambda: {"prefixItems": [self.any(depth)], "items": [self.any(depth)]},
        ])()  # fmt: skip

    def dependencies(self, depth: int) -> dict[str, object]:
        return {"dependencies": {"a": self.chance.choice([["b"], ["x1"], self.any(depth)])}}

    def dependent(self, depth: int) -> dict[str, object]:
        return self.chance.choice([
            {"dependentRequired": {"a": [self.chance.choice(["b", "x1"])]}},
            {"dependentSchemas": {"a": self.any(depth)}},
            {"prefixItems": [self.any(depth)], "items": self.any(depth)},
            {"dependencies": {"a": ["b"]}, "dependentRequired": {"a": ["x1"]}},
        ])  # fmt: skip

    def evaluated(self, depth: int) -> dict[str, object]:
        return {self.chance.choice(["unevaluatedProperties", "unevaluatedItems"]): self.any(depth)}

    # ---- changes --------------------------------------------------------------------------------

    def changed(self, schema: dict[str, object]) -> dict[str, object]:
        made = copy.deepcopy(schema)
        for _ in range(self.chance.choice([1, 1, 2])):
            self._change(self.chance.choice(list(_places(made))))
        return made

    def _change(self, place: dict[str, object]) -> None:
        chance, words = self.chance, [each for each in place if each not in ("$schema", "$defs")]
        how = chance.randrange(5)
        if how == 0 and words:
            del place[chance.choice(words)]
        elif how == 1:
            place.update(self.words(1))
        elif how == 2 and words:
            word = chance.choice(words)
            place[word] = _nudged(chance, place[word], self.schema)
        elif how == 3 and isinstance(place.get("properties"), dict):
            place["properties"][chance.choice(_NAMES)] = self.any(1)  # type: ignore[index]
        else:
            for word in ("allOf", "anyOf", "oneOf"):
                if isinstance(place.get(word), list):
                    place[word].append(self.schema(1))  # type: ignore[union-attr]


def _nudged(chance: random.Random, value: object, schema) -> object:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return max(0, value + chance.choice([-1, 1]))
    if isinstance(value, list) and value and chance.random() < 0.7:
        return [each for each in value if each is not value[0]] or value
    if isinstance(value, dict) and value and chance.random() < 0.4:
        return {key: each for key, each in value.items() if key != next(iter(value))}
    return schema(1) if isinstance(value, dict) else value


def _places(value: object):
    if isinstance(value, dict):
        yield value
        for word, each in value.items():
            if word in (
                "properties",
                "patternProperties",
                "dependentSchemas",
                "$defs",
                "dependencies",
            ):
                for one in each.values() if isinstance(each, dict) else ():
                    yield from _places(one)
            elif word not in ("enum", "const"):
                yield from _places(each)
    elif isinstance(value, list):
        for each in value:
            yield from _places(each)


def value_of(chance: random.Random, depth: int = 2) -> object:
    kind = chance.randrange(3) if depth else 2
    if kind == 0:
        names = chance.sample((*_NAMES, "ab", "c"), chance.randrange(4))
        return {each: value_of(chance, depth - 1) for each in names}
    if kind == 1:
        return [value_of(chance, depth - 1) for _ in range(chance.randrange(4))]
    return chance.choice(_SCALARS)


def redrafted(chance: random.Random, schema: dict[str, object]) -> dict[str, object]:
    """Sometimes of another draft, now and then with no other change."""
    drafts = [f"http://json-schema.org/draft-0{n}/schema#" for n in (4, 6)]
    others = [*drafts, DRAFT_7, "https://json-schema.org/draft/2019-09/schema", DRAFT_2020]
    return {**schema, "$schema": chance.choice(others)} if chance.random() < 0.2 else schema


def refused_now(chance: random.Random, was: dict[str, object], now: dict[str, object]) -> object:
    """A value that was taken, and is not any more; () for none."""
    try:
        before, after = jsonschema_rs.validator_for(was), jsonschema_rs.validator_for(now)
    except ValueError:  # it is none of its draft, or refers to nothing
        return ()
    for _ in range(VALUES):
        value = value_of(chance)
        if before.is_valid(value) and not after.is_valid(value):
            return value
    return ()


@pytest.mark.parametrize("draft", [DRAFT_7, DRAFT_2020], ids=["7", "2020-12"])
def test_what_is_called_compatible_takes_all_old_values(draft: str):
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    schemas, compatible = Schemas(chance, draft), 0
    for number in range(ROUNDS):
        was = schemas.root()
        now = redrafted(chance, schemas.changed(was) if chance.random() < 0.9 else schemas.root())
        try:
            old, new = (kinds.parse("JSON", json.dumps(each)) for each in (was, now))
            if new.unreadable(old):
                continue
        except InvalidSchema:
            continue
        compatible += was != now
        found = refused_now(chance, was, now)
        assert found == (), (
            f"seed {seed}, round {number}: {found!r}\n{json.dumps(was)}\n{json.dumps(now)}"
        )
    assert compatible > ROUNDS // 20, "hardly any change was called compatible: nothing was tested"


def both(*words: dict[str, object], draft: str = DRAFT_2020) -> tuple[dict[str, object], ...]:
    return tuple({"$schema": draft, **each} for each in words)


REFUSED = {
    "dynamicRef": (
        *both(
            {"items": {"$dynamicRef": "#n"}, "$defs": {"n": {"$dynamicAnchor": "n"}}},
            {"items": {"$dynamicRef": "#n"}, "$defs": {"n": {"$dynamicAnchor": "n", "type": "null"}}},
        ),
        [1],
    ),
    "const beside enum": (*both({"enum": [1, 2]}, {"enum": [1, 2], "const": 1}), 2),
    "minContains removed": (
        *both({"contains": {"const": 1}, "minContains": 0}, {"contains": {"const": 1}}),
        [],
    ),
    "look-ahead": (
        *both(
            {"patternProperties": {"^(?=a)": {"type": "integer"}}, "additionalProperties": False},
            {"patternProperties": {"^(?=a)": {"type": "integer"}}, "additionalProperties": False,
             "properties": {"ab": {"type": "string"}}},
        ),
        {"ab": 1},
    ),
    "another draft": (
        {"$schema": DRAFT_2020, "format": "ipv4"}, {"$schema": DRAFT_7, "format": "ipv4"}, "x"
    ),
    "another draft, that checks less of what must not be": (
        {"$schema": DRAFT_7, "not": {"format": "ipv4"}},
        {"$schema": DRAFT_2020, "not": {"format": "ipv4"}},
        "x",
    ),
    "another draft's keyword": (
        {"$schema": DRAFT_7, "prefixItems": [{"type": "null"}]},
        {"$schema": DRAFT_2020, "prefixItems": [{"type": "null"}]},
        [1],
    ),
    "dependencies beside dependentRequired": (
        *both(
            {"dependentRequired": {"a": ["b"]}, "properties": {"a": {}}},
            {"dependentRequired": {"a": ["b", "c"]}, "properties": {"a": {}},
             "dependencies": {"a": ["b"]}},
        ),
        {"a": 1, "b": 1},
    ),
    "a type beside an enum and others": (
        *both({"enum": ["a", 1]}, {"type": "integer", "enum": ["a", 1], "allOf": [{}]}),
        "a",
    ),
    "one of several that overlap": (
        *both({"type": "integer"}, {"oneOf": [{"type": "integer"}, {"type": "number"}]}),
        1,
    ),
    "a format": (*both({"type": "string"}, {"type": "string", "format": "ipv4"}, draft=DRAFT_7), "x"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_change_that_refuses_old_values_is_not_called_compatible(name: str):
    was, now, value = REFUSED[name]
    assert jsonschema_rs.validator_for(was).is_valid(value)
    assert not jsonschema_rs.validator_for(now).is_valid(value)
    old, new = (kinds.parse("JSON", json.dumps(each)) for each in (was, now))
    assert new.unreadable(old)


@pytest.mark.parametrize("name", ["sub/", "a/b.json", "http://h/x/"])
def test_a_relative_name_of_its_own_counts_once(name: str):
    """As it would lead a `$ref` elsewhere each time that it is looked at."""
    defs = {"d": {"type": "number"}, "e": {"$id": "e/", "allOf": [{"$ref": "#/x"}], "x": {}}}
    inner = {"properties": {"b": {}}, "allOf": [True, {"$ref": "#/definitions/d"}]}
    was = {"$id": name, "definitions": defs, "allOf": [inner, {"$ref": "#/definitions/e"}]}
    old, new = (kinds.parse("JSON", json.dumps(each)) for each in (was, {**was, "title": "t"}))
    assert not new.unreadable(old)


_ORDER = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
_CLOSED = {**_ORDER, "additionalProperties": False}
_MORE = {"properties": {"id": {"type": "integer"}, "note": {"type": "string"}}}
_KINDS = [
    {"type": "object", "properties": {"kind": {"const": each}}, "required": ["kind"]}
    for each in "abc"
]


@pytest.mark.parametrize(
    ("was", "now", "is_compatible"),
    [
        (_CLOSED, {**_CLOSED, **_MORE}, True),
        ({**_CLOSED, **_MORE}, _CLOSED, False),
        (_ORDER, {**_ORDER, **_MORE}, False),
        ({**_ORDER, **_MORE}, _ORDER, True),
        (_ORDER, {**_ORDER, "required": []}, True),
        (_CLOSED, {**_CLOSED, "additionalProperties": True}, True),
        (_CLOSED, {**_CLOSED, **_MORE, "required": ["id", "note"]}, False),
        ({"type": "integer"}, {"type": "number"}, True),
        ({"type": "string"}, {"type": ["string", "null"]}, True),
        (
            {"oneOf": [{"type": "string"}]},
            {"oneOf": [{"type": "string"}, {"type": "integer"}]},
            True,
        ),
        ({"oneOf": _KINDS[:2]}, {"oneOf": _KINDS}, True),
        ({"oneOf": _KINDS}, {"oneOf": _KINDS[:2]}, False),
        ({"enum": ["a"]}, {"enum": ["a", "b"]}, True),
        (_CLOSED, {**_CLOSED, "title": "Order", "x-owner": "shop"}, True),
    ],
)
@pytest.mark.parametrize(
    "drafts", [(DRAFT_7, DRAFT_7), (DRAFT_2020, DRAFT_2020), (DRAFT_7, DRAFT_2020)]
)
def test_usual_changes_have_their_usual_answers(
    was: dict[str, object], now: dict[str, object], is_compatible: bool, drafts: tuple[str, str]
):
    texts = [
        json.dumps({"$schema": draft, **each})
        for draft, each in zip(drafts, (was, now), strict=True)
    ]
    old, new = (kinds.parse("JSON", each) for each in texts)
    assert (not new.unreadable(old)) == is_compatible


@pytest.mark.parametrize(
    ("was", "now", "is_compatible"),
    [
        ({}, {}, True),
        ({"const": 1}, {"type": "integer"}, True),
        ({"type": "integer"}, {"const": 1}, False),
    ],
)
@pytest.mark.parametrize("more", [{}, {"minContains": 2}, {"maxContains": 3}])
def test_what_a_list_has_to_contain_may_be_more(
    was: object, now: object, is_compatible: bool, more: dict[str, object]
):
    """Unless only so many may be such."""
    schemas = both(*({"contains": each, **more} for each in (was, now)))
    old, new = (kinds.parse("JSON", json.dumps(each)) for each in schemas)
    assert (not new.unreadable(old)) == (
        is_compatible and ("maxContains" not in more or was == now)
    )
