"""Whenever two Avro schemas are called compatible, one reads what the other wrote: fastavro is the judge."""

from __future__ import annotations

import copy
import io
import json
import os
import random

import pytest
from fastavro import parse_schema, schemaless_reader, schemaless_writer

from headwater.schemas import kinds
from headwater.schemas.errors import InvalidSchema

ROUNDS = int(os.environ.get("HEADWATER_SCHEMA_ROUNDS", "400"))
_PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_SYMBOLS = ("A", "B", "C")
_DEFAULTS: dict[str, object] = {
    "null": None, "boolean": True, "int": 1, "long": 2, "float": 1.5, "double": 2.5,
    "bytes": "x", "string": "s",
}  # fmt: skip


class Schemas:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def root(self) -> dict[str, object]:
        self.names = 0
        self.open = ["n0.R0"]
        return {"type": "record", "name": "R0", "namespace": "n0", "fields": self.fields(2)}

    def fields(self, depth: int) -> list[object]:
        return [
            self.field(name, depth)
            for name in self.chance.sample("abcd", self.chance.randrange(1, 4))
        ]

    def field(self, name: str, depth: int) -> dict[str, object]:
        kind = self.type(depth)
        made: dict[str, object] = {"name": name, "type": kind}
        if isinstance(kind, str) and kind in _DEFAULTS and self.chance.random() < 0.5:
            made["default"] = _DEFAULTS[kind]
        elif isinstance(kind, list) and kind[0] == "null" and self.chance.random() < 0.5:
            made["default"] = None
        if self.chance.random() < 0.2:
            made["aliases"] = [self.chance.choice("abcde")]
        return made

    def type(self, depth: int, *, in_union: bool = False) -> object:
        chance = self.chance
        how = chance.randrange(10) if depth else chance.randrange(4)
        if how < 4:
            return chance.choice(_PRIMITIVES)
        if how == 4:
            return {"type": "array", "items": self.type(depth - 1)}
        if how == 5:
            return {"type": "map", "values": self.type(depth - 1)}
        if how in (6, 7) and not in_union:
            return self.union(depth)
        return self.named(depth)

    def union(self, depth: int) -> list[object]:
        found: dict[str, object] = {}
        for _ in range(self.chance.randrange(1, 4)):
            each = self.type(depth - 1, in_union=True)
            called = each if isinstance(each, str) else each.get("name", each["type"])  # type: ignore[attr-defined]
            found[str(called)] = each
        if self.chance.random() < 0.4:
            found["n0.R0"] = "n0.R0"
        rest = [each for each in found.values() if each != "null"]
        return (
            ["null", *rest] if self.chance.random() < 0.5 or "n0.R0" in found else rest or ["null"]
        )

    def named(self, depth: int) -> dict[str, object]:
        self.names += 1
        chance = self.chance
        made: dict[str, object] = {
            "name": f"T{self.names}",
            "namespace": chance.choice(["n0", "n1"]),
        }
        if chance.random() < 0.2:
            made["aliases"] = [f"{chance.choice(['n0', 'n1'])}.T{chance.randrange(1, 4)}"]
        how = chance.randrange(3)
        if how == 0:
            return {**made, "type": "record", "fields": self.fields(depth - 1)}
        if how == 1:
            more = {"default": "A"} if chance.random() < 0.3 else {}
            return {
                **made,
                "type": "enum",
                "symbols": ["A", *chance.sample(_SYMBOLS[1:], 1)],
                **more,
            }
        return {**made, "type": "fixed", "size": chance.randrange(1, 3)}

    def changed(self, schema: dict[str, object]) -> dict[str, object]:
        made = copy.deepcopy(schema)
        self.names = 10
        for _ in range(self.chance.choice([1, 1, 2, 3])):
            self._change(self.chance.choice(list(_dicts(made))))
        return made

    def _change(self, place: dict[str, object]) -> None:
        chance = self.chance
        fields = place.get("fields")
        if isinstance(fields, list) and chance.random() < 0.6:
            how = chance.randrange(4)
            if how == 0 and len(fields) > 1:
                fields.pop(chance.randrange(len(fields)))
            elif how == 1:
                taken = {each["name"] for each in fields}
                free = [each for each in "abcde" if each not in taken]
                fields.append(self.field(chance.choice(free), 1)) if free else None
            elif how == 2:
                chance.shuffle(fields)
            else:
                one = chance.choice(fields)
                one["aliases"] = [one["name"]]
                one["name"] = chance.choice(["e", "f"])
        elif "symbols" in place:
            place["symbols"] = ["A", *chance.sample(_SYMBOLS[1:], chance.randrange(3))]
        elif "size" in place:
            place["size"] = chance.randrange(1, 3)
        elif "items" in place or "values" in place:
            place["items" if "items" in place else "values"] = self.type(1)
        elif "type" in place and place.get("name") != "R0":
            place["type"] = self._wider(place["type"])
            place.pop("default", None)
        if chance.random() < 0.15 and "namespace" in place and place["name"] != "R0":
            place["namespace"] = chance.choice(["n0", "n1"])

    def _wider(self, kind: object) -> object:
        chance = self.chance
        if isinstance(kind, list):
            more = self.type(1, in_union=True)
            return [*kind, more] if chance.random() < 0.6 else chance.sample(kind, len(kind))
        wider = {
            "int": "long",
            "long": "double",
            "float": "double",
            "string": "bytes",
            "bytes": "string",
        }
        if isinstance(kind, str) and kind in wider and chance.random() < 0.6:
            return wider[kind]
        return ["null", kind] if kind != "null" and chance.random() < 0.7 else self.type(1)


def _dicts(value: object):
    if isinstance(value, dict):
        yield value
    for each in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        yield from _dicts(each)


class Values:
    def __init__(self, chance: random.Random, schema: object) -> None:
        self.chance, self.named = chance, dict[str, object]()
        for each in _dicts(schema):
            if "name" in each and each.get("type") in ("record", "enum", "fixed"):
                self.named[f"{each.get('namespace', 'n0')}.{each['name']}"] = each

    def of(self, kind: object, depth: int = 0) -> object:
        chance = self.chance
        if isinstance(kind, list):
            wanted = kind if depth < 4 else [each for each in kind if each == "null"] or kind
            one = chance.choice(wanted)
            value = self.of(one, depth + 1)
            name = self._name(one)
            return (name, value) if name else value
        if isinstance(kind, str):
            if kind in self.named:
                return self.of(self.named[kind], depth)
            return {"null": None, "boolean": False, "int": 7, "long": 2**40, "float": 0.5, "double": 0.25,
                    "bytes": b"ab", "string": "xy"}[kind]  # fmt: skip
        assert isinstance(kind, dict)
        word = kind["type"]
        if word == "record":
            return {each["name"]: self.of(each["type"], depth + 1) for each in kind["fields"]}
        if word == "enum":
            return chance.choice(kind["symbols"])
        if word == "fixed":
            return b"z" * kind["size"]
        if word in ("array", "map"):
            items = [self.of(kind["items" if word == "array" else "values"], depth + 1)
                     for _ in range(chance.randrange(3) if depth < 4 else 0)]  # fmt: skip
            return items if word == "array" else {str(n): each for n, each in enumerate(items)}
        return self.of(word, depth)

    def _name(self, kind: object) -> str | None:
        if isinstance(kind, str):
            return kind if kind in self.named else None
        if isinstance(kind, dict) and "name" in kind:
            return f"{kind.get('namespace', 'n0')}.{kind['name']}"
        return None


def unread(chance: random.Random, was: dict[str, object], now: dict[str, object]) -> object:
    """The first value of the one that the other does not read; () for none."""
    writer, reader = parse_schema(copy.deepcopy(was)), parse_schema(copy.deepcopy(now))
    values = Values(chance, was)
    for _ in range(15):
        value = values.of(was)
        data = io.BytesIO()
        schemaless_writer(data, writer, value)
        data.seek(0)
        try:
            schemaless_reader(data, writer, reader)
        except Exception as error:
            return value, repr(error)
    return ()


def test_what_is_called_compatible_is_read():
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    schemas, compatible = Schemas(chance), 0
    for number in range(ROUNDS):
        was = schemas.root()
        now = schemas.changed(was)
        try:
            old, new = (kinds.parse("AVRO", json.dumps(each)) for each in (was, now))
        except InvalidSchema:
            continue
        if new.unreadable(old):
            continue
        compatible += was != now
        found = unread(chance, was, now)
        assert found == (), (
            f"seed {seed}, round {number}: {found}\n{json.dumps(was)}\n{json.dumps(now)}"
        )
    assert compatible > ROUNDS // 20, "hardly any change was called compatible: nothing was tested"


def _record(name: str, *fields: dict[str, object], **more: object) -> dict[str, object]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def _differences(was: object, now: object) -> set[str]:
    old, new = (kinds.parse("AVRO", json.dumps(each), is_new=False) for each in (was, now))
    return {each.type for each in new.unreadable(old)}


def test_what_was_only_taken_to_be_readable_is_not_remembered():
    """B holds A, and A is found to be unreadable only after B was looked at inside of it."""

    def schema(last: str) -> object:
        inner = _record("B", {"name": "a", "type": ["null", "A"]})
        first = _record("A", {"name": "b", "type": ["null", inner]}, {"name": "x", "type": last})
        # A is looked at first, by a branch that is not asked for more.
        return _record(
            "R", {"name": "f", "type": [first, "string"]}, {"name": "g", "type": ["null", "B"]}
        )

    old, new = (kinds.parse("AVRO", json.dumps(schema(each))) for each in ("string", "int"))
    paths = {each.path for each in new.unreadable(old)}
    assert paths == {"/fields/0/type/0", "/fields/1/type/1"}


def test_each_branch_that_fits_by_its_name_or_an_alias_has_to_read():
    written = _record("n.R", {"name": "x", "type": "int"})
    other = _record("m.R", {"name": "y", "type": "int"})
    assert _differences(["null", written], ["null", other, written]) == {"MISSING_UNION_BRANCH"}
    renamed = _record("n.S", {"name": "y", "type": "int"}, aliases=["n.R"])
    assert _differences(["null", written], ["null", renamed, written]) == {"MISSING_UNION_BRANCH"}
    elsewhere = _record("n.S", {"name": "y", "type": "int"}, aliases=["n.T"])
    third = _record("m.T", {"name": "x", "type": "int"})
    assert _differences(["null", third], ["null", elsewhere, third]) == {"MISSING_UNION_BRANCH"}
    both = _record("m.R", {"name": "x", "type": "long"})
    assert _differences(["null", written], ["null", both, written]) == set()


def test_a_decimal_is_no_text():
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    assert _differences(decimal, "string") == {"LOGICAL_TYPE_MISMATCH"}
    assert _differences(decimal, {**decimal, "type": "string"}) == {"LOGICAL_TYPE_MISMATCH"}
    assert _differences("string", decimal) == {"LOGICAL_TYPE_MISMATCH"}
    assert _differences(decimal, "bytes") == _differences("bytes", "string") == set()


@pytest.mark.parametrize(
    ("was", "now", "rule"),
    [
        ([("d", "int", []), ("c", "int", [])], [("c", "int", ["d"])], "AMBIGUOUS_ALIAS"),
        ([("c", "int", [])], [("c", "int", []), ("a", "int", ["c"])], "AMBIGUOUS_ALIAS"),
        ([("c", "int", [])], [("a", "long", ["c"])], ""),
        ([("a", "int", []), ("c", "int", [])], [("a", "int", ["c"]), ("c", "int", [])], ""),
    ],
    ids=["two written", "two that read", "renamed", "an alias of one that is there again"],
)
def test_an_alias_is_of_one_field(was, now, rule: str):
    schemas = [
        _record("R", *({"name": name, "type": kind, "aliases": more} for name, kind, more in each))
        for each in (was, now)
    ]
    assert _differences(*schemas) == set(rule.split())
