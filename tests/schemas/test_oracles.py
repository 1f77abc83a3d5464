"""What is called compatible, beside other libraries, for small schemas and all small values: what one wrote,
the other reads, and as what it was. The schemas and their changes are those of the property tests.
"""

from __future__ import annotations

import copy
import io
import itertools
import json
import os
import random
from collections.abc import Iterator

import jsonschema_rs
from fastavro import parse_schema, schemaless_reader, schemaless_writer
from jsonschema.validators import validator_for

from headwater.schemas import kinds
from headwater.schemas.errors import InvalidSchema
from headwater.schemas.values.avro import AvroCodec, plain
from headwater.schemas.values.errors import NotOfItsSchema
from tests.schemas import test_avro_property as avro
from tests.schemas import test_json_schema_property as json_schema

ROUNDS = int(os.environ.get("HEADWATER_SCHEMA_ROUNDS", "150"))
NAMES = ("a", "b", "x1", "ab", "c")
LEAVES = (0, 1, 2.0, 3, "a", "abc", None, True, 1.5)


def small_values() -> Iterator[object]:
    """Around all the numbers, names and texts that the schemas have."""
    yield from (*range(-1, 9), 0.5, 1.5, 2.0, "", "a", "ab", "abc", "x1", "b1", None, True, False)
    yield from ({}, [], [[]], [{}], {"a": {}}, {"a": []}, {"a": {"a": 1}}, {"a": {"b": "a"}})
    yield from ({"a": [1]}, {"a": ["a", 2]}, dict.fromkeys(NAMES, 1), dict.fromkeys(NAMES, "a"))
    for name, leaf in itertools.product(NAMES, LEAVES):
        yield {name: leaf}
    for one, other in itertools.combinations(NAMES, 2):
        yield from ({one: 1, other: "a"}, {one: "a", other: 1}, {one: 3, other: None})
    for leaf in LEAVES:
        yield from ([leaf], [leaf, leaf], [1, leaf], [leaf, "a"], [leaf, {"a": 1}, leaf])


def test_every_small_value_that_the_old_schema_takes_the_new_one_takes_by_two_validators():
    seed = random.randrange(2**32)
    chance, compatible = random.Random(seed), 0
    values = list(small_values())
    for number in range(ROUNDS):
        schemas = json_schema.Schemas(
            chance, chance.choice([json_schema.DRAFT_7, json_schema.DRAFT_2020])
        )
        was = schemas.root()
        now = json_schema.redrafted(chance, schemas.changed(was))
        try:
            old, new = (kinds.parse("JSON", json.dumps(each)) for each in (was, now))
            if new.unreadable(old):
                continue
            fast = [jsonschema_rs.validator_for(each) for each in (was, now)]
        except (InvalidSchema, ValueError):
            continue
        compatible += was != now
        slow = [validator_for(each)(each) for each in (was, now)]
        for value in values:
            for before, after in (fast, slow):
                assert after.is_valid(value) or not before.is_valid(value), (
                    f"seed {seed}, round {number}: {value!r}\n{json.dumps(was)}\n{json.dumps(now)}"
                )
    assert compatible > ROUNDS // 20


def test_what_is_read_as_another_schema_is_what_fastavro_reads():
    seed = random.randrange(2**32)
    chance, read = random.Random(seed), 0
    schemas = avro.Schemas(chance)
    for number in range(ROUNDS):
        was = schemas.root()
        now = schemas.changed(was)
        try:
            old, new = (kinds.parse("AVRO", json.dumps(each)) for each in (was, now))
        except InvalidSchema:
            continue
        if new.unreadable(old):
            continue
        writer, reader = (parse_schema(copy.deepcopy(each)) for each in (was, now))
        codec = AvroCodec(json.dumps(was), (), (json.dumps(now), ()))
        values = avro.Values(chance, was)
        for _ in range(5):
            data = io.BytesIO()
            schemaless_writer(data, writer, values.of(was))
            expected = plain(schemaless_reader(io.BytesIO(data.getvalue()), writer, reader))
            try:
                found = codec.decode(data.getvalue())
            except NotOfItsSchema as error:
                if "without a byte" not in str(error):  # lists of nothing but nulls
                    raise
                break
            read += 1
            assert _without_defaults(found) == _without_defaults(expected), (
                f"seed {seed}, round {number}: {data.getvalue()!r}\n{json.dumps(was)}\n{json.dumps(now)}"
            )
    assert read > ROUNDS


def _without_defaults(value: object) -> object:
    """A default of bytes is letters in a schema, and fastavro hands out those."""
    if isinstance(value, dict):
        return {name: _without_defaults(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_without_defaults(each) for each in value]
    return "x" if value == "eA==" else value
