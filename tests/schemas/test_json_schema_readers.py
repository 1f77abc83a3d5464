"""A JSON Schema that is compatible takes every value that the one before took, whatever their keywords."""

from __future__ import annotations

import json

import jsonschema
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from headwater.schemas import kinds
from headwater.schemas.errors import InvalidSchema
from headwater.schemas.model import JSON

DRAFTS = {
    "http://json-schema.org/draft-07/schema#": jsonschema.Draft7Validator,
    "https://json-schema.org/draft/2020-12/schema": jsonschema.Draft202012Validator,
}
VALUES: list[object] = [
    None, True, 0, 1, 3, 7, 2.5, "", "a", "b1", "abcd", [], [1], ["a"], [1, 1], ["a", 1], [1, "a", None],
    {}, {"a": 1}, {"a": "a"}, {"b1": 1}, {"b1": "a"}, {"a": 1, "b1": "a"}, {"a": None, "c": 1}, {"c": "abcd"},
    {"a": {"a": 1}}, {"a": "abcd", "c": []},
]  # fmt: skip
names = st.sampled_from(["a", "b1", "c"])
numbers = st.integers(0, 4)


def schemas(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    words = {
        "type": st.sampled_from(["string", "number", "integer", "object", "array", "null",
                                 ["string", "object"], ["null", "number"]]),
        "properties": st.dictionaries(names, inner, max_size=2),
        "patternProperties": st.dictionaries(st.sampled_from(["^b", "1$"]), inner, max_size=1),
        "additionalProperties": inner, "unevaluatedProperties": inner, "propertyNames": inner,
        "required": st.lists(names, max_size=2, unique=True),
        "dependentRequired": st.dictionaries(names, st.lists(names, max_size=1), max_size=1),
        "dependentSchemas": st.dictionaries(names, inner, max_size=1),
        "minProperties": numbers, "maxProperties": numbers, "minLength": numbers, "maxLength": numbers,
        "pattern": st.sampled_from(["^a", "b"]), "minimum": numbers, "maximum": numbers,
        "exclusiveMinimum": numbers, "multipleOf": st.integers(1, 4), "minItems": numbers,
        "maxItems": numbers, "uniqueItems": st.booleans(), "contains": inner, "minContains": numbers,
        "maxContains": numbers, "unevaluatedItems": inner, "items": inner,
        "prefixItems": st.lists(inner, min_size=1, max_size=2), "not": inner, "if": inner, "then": inner,
        "else": inner, "allOf": st.lists(inner, min_size=1, max_size=2),
        "anyOf": st.lists(inner, min_size=1, max_size=2),
        "enum": st.lists(st.sampled_from(VALUES), min_size=1, max_size=3),
        "const": st.sampled_from(VALUES), "$ref": st.just("#/$defs/x"),
    }  # fmt: skip
    some = st.lists(st.sampled_from(sorted(words)), max_size=3, unique=True)
    return some.flatmap(
        lambda chosen: st.fixed_dictionaries({word: words[word] for word in chosen})
    )


parts = st.recursive(st.one_of(st.booleans(), schemas(st.booleans())), schemas, max_leaves=4)
documents = st.builds(
    lambda draft, root, inner: {**root, "$schema": draft, "$defs": {"x": inner}},
    st.sampled_from(sorted(DRAFTS)),
    schemas(parts),
    schemas(st.booleans()),
)


def taken(schema: dict[str, object]) -> list[object]:
    validator = DRAFTS[str(schema["$schema"])](schema)
    return [each for each in VALUES if validator.is_valid(each)]


@settings(max_examples=500)
@given(was=documents, now=documents, mixed=st.data())
def test_what_was_valid_is_valid_by_a_compatible_schema(was, now, mixed):
    changed = dict(was)
    for word in mixed.draw(st.lists(st.sampled_from(sorted({*was, *now})), max_size=2)):
        changed.pop(word, None)
        if word in now and word != "$schema":
            changed[word] = now[word]
    changed = {**changed, "$schema": was["$schema"], "$defs": changed.get("$defs", was["$defs"])}
    try:
        old, new = (kinds.parse(JSON, json.dumps(each)) for each in (was, changed))
        differences = new.unreadable(old)
    except InvalidSchema:
        assume(False)
        return
    if differences:
        return
    try:
        before, after = taken(was), taken(changed)
    except (RecursionError, ValueError):
        assume(False)
        return
    kept = [repr(each) for each in after]
    lost = [each for each in before if repr(each) not in kept]
    assert not lost, (was, changed, lost)


def test_the_values_tell_schemas_apart():
    assert taken({"$schema": max(DRAFTS), "type": "string"}) == ["", "a", "b1", "abcd"]
    with pytest.raises(InvalidSchema):
        kinds.parse(JSON, '{"$ref":"#/$defs/none"}')


@pytest.mark.parametrize("beside", [{}, {"minLength": 1}, {"if": True}])
def test_a_reference_that_leads_to_itself_is_refused(beside: dict[str, object]):
    for schema in (
        {"$ref": "#", **beside},
        {"$ref": "#/$defs/x", "$defs": {"x": {"$ref": "#", **beside}}},
    ):
        with pytest.raises(InvalidSchema, match="leads to itself"):
            kinds.parse(JSON, json.dumps(schema))
