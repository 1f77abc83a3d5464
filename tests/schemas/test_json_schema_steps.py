"""What a stranger's JSON Schema costs whoever checks values by it: counted first, and bounded."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading

import jsonschema_rs
import pytest

from headwater.edges.schemas import Schema
from headwater.schemas import kinds
from headwater.schemas.errors import InvalidSchema
from headwater.schemas.json_schema import nodes, steps
from headwater.schemas.model import JSON, Imported
from headwater.schemas.values.errors import NotOfItsSchema
from headwater.schemas.values.json import JsonCodec

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def doubling(levels: int, word: str = "allOf") -> dict[str, object]:
    """Each of two that are each of two …: a few hundred bytes, and 2^levels schemas to meet."""
    defs: dict[str, object] = {
        f"s{n}": {word: [{"$ref": f"#/$defs/s{n + 1}"}, {"$ref": f"#/$defs/s{n + 1}"}]}
        for n in range(levels)
    }
    return {
        "$schema": DRAFT,
        "$ref": "#/$defs/s0",
        "$defs": {**defs, f"s{levels}": {"type": "null"}},
    }


def doubling_inside(levels: int) -> dict[str, object]:
    defs: dict[str, object] = {
        f"s{n}": {"allOf": [{"properties": {"a": {"$ref": f"#/$defs/s{n + 1}"}}}] * 2}
        for n in range(levels)
    }
    return {
        "$schema": DRAFT,
        "$ref": "#/$defs/s0",
        "$defs": {**defs, f"s{levels}": {"type": "null"}},
    }


def evaluated_through(levels: int, word: str = "allOf") -> dict[str, object]:
    """What is not evaluated is known once all beside it was, which asks the same of what is beside that."""
    schema: dict[str, object] = {"additionalProperties": True}
    for _ in range(levels):
        schema = {word: [schema], "unevaluatedProperties": False}
    return {"$schema": DRAFT, **schema}


EXTENDED = {
    "$schema": DRAFT, "$ref": "#/$defs/node",
    "$defs": {"node": {"allOf": [{"$ref": "#/$defs/base"}], "unevaluatedProperties": False},
              "base": {"properties": {"a": {"anyOf": [{"$ref": "#/$defs/node"}, {"const": 1}]}}}},
}  # fmt: skip
"""As people extend a schema of a tree."""
UNIQUE = {"$defs": {"u": {"uniqueItems": True}}, "allOf": [{"$ref": "#/$defs/u"}] * 4_000}
UNIQUE_LEVELS = {"uniqueItems": True, "items": {"$ref": "#"}}


TREE = {
    "anyOf": [
        {"properties": {"a": {"$ref": "#"}}},
        {"required": ["b"], "properties": {"a": {"$ref": "#"}}},
    ]
}
LOOP = {"allOf": [{"$ref": "#"}]}
DYNAMIC = {
    "$schema": DRAFT, "$dynamicAnchor": "n",
    "allOf": [{"items": {"$dynamicRef": "#n"}}, {"items": {"$dynamicRef": "#n"}}],
}  # fmt: skip


def nested(levels: int) -> object:
    value: object = {"a": 1}
    for _ in range(levels):
        value = {"a": value}
    return value


def nested_list(levels: int, innermost: object) -> object:
    value = innermost
    for _ in range(levels):
        value = [value, *range(16)]
    return value


@pytest.mark.parametrize(
    "schema",
    [
        doubling(40),
        doubling(40, "anyOf"),
        doubling(40, "oneOf"),
        doubling_inside(40),
        LOOP,
        evaluated_through(20),
        evaluated_through(20, "anyOf"),
    ],
    ids=[
        "allOf",
        "anyOf",
        "oneOf",
        "in properties",
        "of itself",
        "unevaluated",
        "unevaluated anyOf",
    ],
)
def test_a_schema_that_doubles_is_refused_when_it_is_registered(schema: object):
    with pytest.raises(InvalidSchema, match=r"meet one place|again and again"):
        kinds.parse("JSON", json.dumps(schema))


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (doubling(40), {}),
        (doubling(40, "oneOf"), None),
        (doubling_inside(40), nested(50)),
        (LOOP, 1),
        (TREE, nested(100)),
        (DYNAMIC, [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]),
        ({"pattern": "[ab]*a[ab]{500}c"}, "ab" * 100_000),
        ({"pattern": "(?=a)(a|aa)+$"}, "a" * 100_000),
        ({"items": {"enum": list(range(1000))}}, [-1] * 100_000),
        ({"items": {"enum": [[0] * 300 + [n] for n in range(300)]}}, [[0] * 300 + [299]] * 1000),
        (evaluated_through(20), {"a": 1}),
        (evaluated_through(8), {f"a{n}": 1 for n in range(100_000)}),
        (UNIQUE, list(range(60_000))),
        (UNIQUE_LEVELS, nested_list(200, list(range(60_000)))),
    ],
    ids=["allOf", "oneOf", "in properties", "of itself", "a tree", "dynamic", "states", "back", "enum",
         "enum of lists", "unevaluated", "unevaluated of many", "unique", "unique at all levels"],
)  # fmt: skip
def test_a_value_that_takes_too_many_steps_is_refused_before_it_is_checked(
    schema: dict[str, object], value: object
):
    """By a schema that is there already, or another registry's."""
    codec = JsonCodec(json.dumps(schema), ())
    for check in (lambda: codec.encode(value), lambda: codec.encode_text(json.dumps(value))):
        with pytest.raises(NotOfItsSchema, match=r"steps|meet one place|again and again"):
            check()


def test_expressions_that_are_too_large_all_together_are_refused():
    """Who checks values would hold 4 GB of them; one that stands in many places counts in each."""
    wide = {"properties": {f"p{n}": {"pattern": f"(\\w{{50}}){{18}}{n}"} for n in range(800)}}
    with pytest.raises(InvalidSchema, match="regular expressions"):
        kinds.parse("JSON", json.dumps(wide))
    with pytest.raises(NotOfItsSchema, match="regular expressions"):
        JsonCodec(json.dumps(wide), ()).encode({})


def test_the_edges_count_as_well():
    schema = Schema(TREE)
    assert "steps" in str(schema.complaint(nested(100)))
    assert list(schema.complaints([{}, nested(100)])) == [1]
    with pytest.raises(ValueError, match="meet one place"):
        Schema(doubling(40))


def test_of_a_value_with_very_many_mistakes_one_is_told():
    schema = Schema({"items": {"type": "string"}})
    said = str(schema.complaint([1] * 100_000))
    assert "is not of type" in said and "too large" in said


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (TREE, nested(10)),
        (doubling(10), None),
        ({"oneOf": [{"properties": {"k": {"const": n}}} for n in range(300)]}, {"k": 1}),
        ({"items": {"properties": {"a": {"type": "integer"}}}}, [{"a": n} for n in range(50_000)]),
        ({"pattern": "^(?=.*[A-Z])(?=.*[0-9]).{8,}$"}, "Password1"),
        ({"items": {"pattern": "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"}},
         ["123e4567-e89b-12d3-a456-426614174000"] * 5_000),
        (evaluated_through(5), {"a": 1}),
        (EXTENDED, nested(60)),
        ({"uniqueItems": True, "items": {"enum": [*range(50), ["a", "b"]]}}, [*range(50), ["a", "b"]]),
        ({"items": {"properties": {f"a{n}": {"type": "integer"} for n in range(40)}}},
         [{f"a{n}": n for n in range(40)}] * 1_000),
    ],
    ids=["a tree", "some doubling", "alternatives", "a long list", "look-ahead", "expressions",
         "unevaluated", "a tree extended", "unique", "wide"],
)  # fmt: skip
def test_what_people_write_is_registered_and_checked(schema: dict[str, object], value: object):
    kinds.parse("JSON", json.dumps(schema))
    codec = JsonCodec(json.dumps(schema), ())
    assert json.loads(codec.encode_text(json.dumps(value))) == value
    assert json.loads(codec.encode(value)) == value


def test_a_schema_of_very_many_states_is_not_walked_through_before_there_is_a_value():
    """A thousand properties, each of which two thousand schemas meet and one more: eight seconds."""
    defs: dict[str, object] = {f"d{n}": {"minimum": n} for n in range(2_000)}
    defs["all"] = {"allOf": [{"$ref": f"#/$defs/d{n}"} for n in range(2_000)]}
    places = {
        f"p{n}": {"allOf": [{"$ref": "#/$defs/all"}, {"$ref": f"#/$defs/d{n}"}]}
        for n in range(1_000)
    }
    root = nodes.rooted({"$schema": DRAFT, "$defs": defs, "properties": places}, {})
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        counter = steps.Steps(root)
    finally:
        sys.setprofile(None)
    assert calls < 12_000_000, calls  # they were 108 million
    assert counter.check({"p1": 1}) > 2_000


def test_threads_may_count_at_once():
    counter = steps.Steps(nodes.rooted(TREE, {}))
    expected = [counter.check(nested(n)) for n in range(12)]
    found: list[list[int]] = []
    threads = [
        threading.Thread(target=lambda: found.append([counter.check(nested(n)) for n in range(12)]))
        for _ in range(4)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == [expected] * 4


def test_steps_are_counted_where_the_text_is_long_and_bounded_where_it_is_short():
    """The bound by letters is never below what is counted."""
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    for _ in range(200):
        schema = _schema(chance, 3)
        counter = steps.Steps(nodes.rooted(schema, {}))
        value = _value(chance, 4)
        assert counter.check(value) <= counter.check(value, len(json.dumps(value))), (
            seed,
            schema,
            value,
        )
        jsonschema_rs.validator_for(schema).is_valid(value)


def _schema(chance: random.Random, depth: int) -> dict[str, object]:
    if depth == 0:
        return chance.choice([{"type": "integer"}, {"pattern": "^a+$"}, {"enum": [1, 2]}, {}])
    inner = lambda: _schema(chance, depth - 1)  # noqa: E731
    kind = chance.randrange(6)
    if kind == 0:
        return {chance.choice(["allOf", "anyOf", "oneOf"]): [inner(), inner()]}
    if kind == 1:
        return {"properties": {"a": inner(), "b": inner()}, "additionalProperties": inner()}
    if kind == 2:
        return {"items": inner(), "contains": inner()}
    if kind == 3:
        return {"not": inner(), "patternProperties": {"^a": inner()}, "propertyNames": inner()}
    return {"if": inner(), "then": inner(), "dependentSchemas": {"a": inner()}}


def _value(chance: random.Random, depth: int) -> object:
    kind = chance.randrange(4) if depth else 3
    if kind == 0:
        return {chance.choice("abc"): _value(chance, depth - 1) for _ in range(3)}
    if kind == 1:
        return [_value(chance, depth - 1) for _ in range(3)]
    return chance.choice([1, "aaa", None, True])


_DEEP = """
import json, sys, threading
from headwater.schemas.values.errors import NotOfItsSchema
from headwater.schemas.values.json import JsonCodec

codec = JsonCodec(sys.argv[1], ())

def check():
    for levels in (10, 400, 900):
        value = []
        for _ in range(levels):
            value = [value]
        try:
            codec.encode_text(json.dumps(value))
            print("taken")
        except NotOfItsSchema as error:
            print("refused" if "levels" in str(error) else error)

thread = threading.Thread(target=check)
thread.start()
thread.join()
"""


def test_many_schemas_through_each_other_at_every_level_of_a_deep_value_end_no_process():
    """A process ends where the library's stack does."""
    links = 140
    defs: dict[str, object] = {
        f"s{n}": {"allOf": [{"$ref": f"#/$defs/s{n + 1}"}]} for n in range(links)
    }
    defs[f"s{links}"] = {"items": {"$ref": "#/$defs/s0"}}
    schema = json.dumps({"$schema": DRAFT, "$ref": "#/$defs/s0", "$defs": defs})
    done = subprocess.run([sys.executable, "-c", _DEEP, schema], capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()) == (0, ["taken", "refused", "refused"]), (
        done.stderr
    )


def test_a_list_inside_of_itself_may_be_deep():
    codec = JsonCodec(json.dumps({"type": "array", "items": {"$ref": "#"}}), ())
    value: list[object] = []
    for _ in range(900):
        value = [value]
    assert codec.encode(value) == json.dumps(value).encode()


@pytest.mark.parametrize("draft", ["http://json-schema.org/draft-07/schema#", DRAFT])
@pytest.mark.parametrize("name", ["urn:x:order", "tag:a,2020:b"])
@pytest.mark.parametrize("place", ["item.json", "{name}#/definitions/c"])
def test_a_schema_to_whose_name_nothing_is_relative_has_its_references(
    draft: str, name: str, place: str
):
    order = {"$schema": draft, "$id": name, "definitions": {"c": {"type": "integer"}}}
    text = json.dumps(order | {"properties": {"a": {"$ref": place.format(name=name)}}})
    imported = (
        Imported("more.json", '{"type": "integer"}'),
        Imported("item.json", '{"$id": "urn:x:item", "allOf": [{"$ref": "more.json"}]}'),
    )
    kinds.parse(JSON, text, imported)
    codec = JsonCodec(text, imported)
    codec.encode({"a": 1})
    with pytest.raises(NotOfItsSchema, match="is not of type"):
        codec.encode({"a": "x"})
