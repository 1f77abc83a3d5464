"""What a new schema may do to data of the old one: a table of cases, each with the rule that forbids it, or none.

A case is read backwards: `now` reads what `was` has written. That the sentence of the rule names the place is
checked for every refusal; that FORWARD is the same turned round, and FULL both, for every case.
"""
# ruff: noqa: E501  (a case is a line)

from __future__ import annotations

import json

import pytest

from headwater.schemas import kinds
from headwater.schemas.levels import Known, complaints
from headwater.schemas.model import AVRO, JSON, PROTOBUF

NO_DEFAULT, TYPE, NAME = "READER_FIELD_MISSING_DEFAULT_VALUE", "TYPE_MISMATCH", "NAME_MISMATCH"
ENUM, UNION, FIXED = "MISSING_ENUM_SYMBOLS", "MISSING_UNION_BRANCH", "FIXED_SIZE_MISMATCH"
LOGICAL = "LOGICAL_TYPE_MISMATCH"


def record(*fields: object, name: str = "R", **more: object) -> dict[str, object]:
    made = [{"name": f"f{n}", "type": each} if not _is_field(each) else each
            for n, each in enumerate(fields)]  # fmt: skip
    return {"type": "record", "name": name, "fields": made, **more}


def _is_field(each: object) -> bool:
    return isinstance(each, dict) and "type" in each and "name" in each and "field" in each


def field(name: str, kind: object, **more: object) -> dict[str, object]:
    return {"field": 1, "name": name, "type": kind, **more}


def enum(*symbols: str, name: str = "E", **more: object) -> dict[str, object]:
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


def fixed(size: int, name: str = "F", **more: object) -> dict[str, object]:
    return {"type": "fixed", "name": name, "size": size, **more}


def array(items: object) -> dict[str, object]:
    return {"type": "array", "items": items}


def mapped(values: object) -> dict[str, object]:
    return {"type": "map", "values": values}


def decimal(precision: int, scale: int) -> dict[str, object]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def logical(kind: str, name: str) -> dict[str, object]:
    return {"type": kind, "logicalType": name}


NODE = record(field("next", ["null", "Node"], default=None), name="Node")
LONGER_NODE = record(
    field("next", ["null", "Node"], default=None), field("v", "int", default=0), name="Node"
)
BAD_NODE = record(field("next", ["null", "Node"], default=None), field("v", "int"), name="Node")
PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
PROMOTED = {("int", "long"), ("int", "float"), ("int", "double"), ("long", "float"),
            ("long", "double"), ("float", "double"), ("string", "bytes"),
            ("bytes", "string")}  # fmt: skip

AVRO_CASES: list[tuple[str, object, object, str | None]] = [
    *[
        (f"{was} to {now}", was, now, None if was == now or (was, now) in PROMOTED else TYPE)
        for was in PRIMITIVES
        for now in PRIMITIVES
    ],
    ("a field more, with a default", record("int"), record("int", field("b", "int", default=1)), None),
    ("a field more, without", record("int"), record("int", field("b", "int")), NO_DEFAULT),
    ("a nullable field more, without", record("int"), record("int", field("b", ["null", "int"])), NO_DEFAULT),
    ("a nullable field more, null", record("int"),
     record("int", field("b", ["null", "int"], default=None)), None),
    ("a field less", record("int", "int"), record("int"), None),
    ("fields in another order", record(field("a", "int"), field("b", "int")),
     record(field("b", "int"), field("a", "int")), None),
    ("a field renamed", record(field("a", "int")), record(field("b", "int")), NO_DEFAULT),
    ("a field renamed, with an alias", record(field("a", "int")),
     record(field("b", "int", aliases=["a"])), None),
    ("an alias for a field of another type", record(field("a", "string")),
     record(field("b", "int", aliases=["a"])), TYPE),
    ("a field promoted", record("int"), record("long"), None),
    ("a field demoted", record("long"), record("int"), TYPE),
    ("a doc", record("int"), record("int", doc="a record"), None),
    ("another record name", record("int"), record("int", name="S"), NAME),
    ("another record name with an alias", record("int"), record("int", name="S", aliases=["R"]), None),
    ("another namespace", record("int"), record("int", namespace="x"), None),
    ("a record instead of a number", "int", record("int"), TYPE),
    ("a number instead of a record", record("int"), "int", TYPE),
    ("a record inside, with a field more", record(record("int", name="I")),
     record(record("int", field("b", "int"), name="I")), NO_DEFAULT),
    ("a record inside, renamed", record(record("int", name="I")), record(record("int", name="J")), NAME),
    ("a recursive record", NODE, NODE, None),
    ("a recursive record with a field more", NODE, LONGER_NODE, None),
    ("a recursive record with a bad field", NODE, BAD_NODE, f"{NO_DEFAULT} {UNION}"),
    ("a symbol more", enum("A"), enum("A", "B"), None),
    ("a symbol less", enum("A", "B"), enum("A"), ENUM),
    ("a symbol less, with a default", enum("A", "B"), enum("A", default="A"), None),
    ("symbols in another order", enum("A", "B"), enum("B", "A"), None),
    ("another enum", enum("A"), enum("A", name="G"), NAME),
    ("another enum with an alias", enum("A"), enum("A", name="G", aliases=["E"]), None),
    ("an enum instead of a string", "string", enum("A"), TYPE),
    ("a string instead of an enum", enum("A"), "string", TYPE),
    ("the same fixed", fixed(4), fixed(4), None),
    ("a longer fixed", fixed(4), fixed(8), FIXED),
    ("a shorter fixed", fixed(8), fixed(4), FIXED),
    ("another fixed", fixed(4), fixed(4, name="G"), NAME),
    ("bytes instead of a fixed", fixed(4), "bytes", TYPE),
    ("an array of more", array("int"), array("long"), None),
    ("an array of less", array("long"), array("int"), TYPE),
    ("an array instead of a map", mapped("int"), array("int"), TYPE),
    ("a map of more", mapped("int"), mapped("double"), None),
    ("a map of less", mapped("string"), mapped("int"), TYPE),
    ("an array in an array", array(array("int")), array(array("string")), TYPE),
    ("a branch more", ["int"], ["int", "string"], None),
    ("a branch less", ["int", "string"], ["int"], UNION),
    ("a type into a union", "int", ["null", "int"], None),
    ("a type into a union that promotes it", "int", ["null", "long"], None),
    ("a type into a union without it", "string", ["null", "int"], UNION),
    ("a union of one into its type", ["int"], "int", None),
    ("a union into one of its types", ["null", "int"], "int", TYPE),
    ("a union into a type that reads all of it", ["int", "long"], "double", None),
    ("branches in another order", ["null", "int"], ["int", "null"], None),
    ("a branch that is promoted", ["null", "int"], ["null", "double"], None),
    ("a branch that is demoted", ["null", "long"], ["null", "int"], UNION),
    ("a record of a union with a field more", ["null", record("int")],
     ["null", record("int", field("b", "int"))], UNION),
    ("a record of a union, renamed", ["null", record("int")], ["null", record("int", name="S")], UNION),
    ("an enum of a union with a symbol less", ["null", enum("A", "B")], ["null", enum("A")], UNION),
    ("a decimal with more digits", decimal(4, 2), decimal(9, 2), None),
    ("a decimal with fewer digits", decimal(9, 2), decimal(4, 2), LOGICAL),
    ("a decimal of another scale", decimal(9, 2), decimal(9, 4), LOGICAL),
    ("milliseconds to microseconds", logical("long", "timestamp-millis"),
     logical("long", "timestamp-micros"), LOGICAL),
    ("a time instead of a date", logical("int", "date"), logical("int", "time-millis"), LOGICAL),
    ("a logical type more", "long", logical("long", "timestamp-millis"), None),
    ("a logical type less", logical("string", "uuid"), "string", None),
    ("a decimal inside a field", record(decimal(9, 2)), record(decimal(9, 3)), LOGICAL),
]  # fmt: skip

SCALARS = ("int32", "int64", "uint32", "uint64", "bool", "sint32", "sint64", "fixed32", "sfixed32",
           "fixed64", "sfixed64", "float", "double", "string", "bytes")  # fmt: skip
WIRE = {"int32": 0, "int64": 0, "uint32": 0, "uint64": 0, "bool": 0, "sint32": 1, "sint64": 1,
        "fixed32": 2, "sfixed32": 2, "fixed64": 3, "sfixed64": 3, "float": 4, "double": 5,
        "string": 6, "bytes": 6}  # fmt: skip
KIND, SCALAR = "FIELD_KIND_CHANGED", "FIELD_SCALAR_KIND_CHANGED"
NAMED, LABEL = "FIELD_NAMED_TYPE_CHANGED", "FIELD_NUMERIC_LABEL_CHANGED"


def message(body: str, more: str = "", *, syntax: str = "proto3", package: str = "") -> str:
    named = f"package {package};" if package else ""
    return f'syntax = "{syntax}"; {named} message M {{ {body} }} {more}'


INNER = "message I { int32 a = 1; }"
PROTOBUF_CASES: list[tuple[str, str, str, str | None]] = [
    *[
        (f"{was} to {now}", message(f"{was} a = 1;"), message(f"{now} a = 1;"),
         None if WIRE[was] == WIRE[now] else SCALAR)
        for number, was in enumerate(SCALARS)
        for now in SCALARS[number:]
    ],
    ("a field more", message("int32 a = 1;"), message("int32 a = 1; string b = 2;"), None),
    ("a field less", message("int32 a = 1; string b = 2;"), message("int32 a = 1;"), None),
    ("a field renamed", message("int32 a = 1;"), message("int32 b = 1;"), None),
    ("a field with another number", message("int32 a = 1;"), message("int32 a = 2;"), None),
    ("an enum instead of a number", message("int32 a = 1;"), message("E a = 1;", "enum E { Z = 0; }"), None),
    ("a number instead of an enum", message("E a = 1;", "enum E { Z = 0; }"), message("int64 a = 1;"), None),
    ("a string instead of an enum", message("E a = 1;", "enum E { Z = 0; }"), message("string a = 1;"), SCALAR),
    ("a value more", message("E a = 1;", "enum E { Z = 0; }"), message("E a = 1;", "enum E { Z = 0; O = 1; }"), None),
    ("a value less", message("E a = 1;", "enum E { Z = 0; O = 1; }"), message("E a = 1;", "enum E { Z = 0; }"), None),
    ("a message instead of a number", message("int32 a = 1;"), message("I a = 1;", INNER), KIND),
    ("a number instead of a message", message("I a = 1;", INNER), message("int32 a = 1;", INNER), KIND),
    ("another message", message("I a = 1;", INNER + "message J { int32 a = 1; }"),
     message("J a = 1;", INNER + "message J { int32 a = 1; }"), NAMED),
    ("a message that changed so itself", message("I a = 1;", INNER),
     message("I a = 1;", "message I { string a = 1; }"), f"{NAMED} {SCALAR}"),
    ("a message that changed well", message("I a = 1;", INNER),
     message("I a = 1;", "message I { int64 a = 1; int32 b = 2; }"), None),
    ("a message less", message("int32 a = 1;", INNER), message("int32 a = 1;"), "MESSAGE_REMOVED"),
    ("a message more", message("int32 a = 1;"), message("int32 a = 1;", INNER), None),
    ("a message inside less", message("message N {} int32 a = 1;"), message("int32 a = 1;"), "MESSAGE_REMOVED"),
    ("a message inside that changed", message("message N { int32 a = 1; } N n = 1;"),
     message("message N { bytes a = 1; } N n = 1;"), f"{NAMED} {SCALAR}"),
    ("an enum less", message("int32 a = 1;", "enum E { Z = 0; }"), message("int32 a = 1;"), None),
    ("another package", message("int32 a = 1;", package="x"), message("int32 a = 1;", package="y"), "PACKAGE_CHANGED"),
    ("a map of more", message("map<string, int32> a = 1;"), message("map<string, int64> a = 1;"), None),
    ("a map of others", message("map<string, int32> a = 1;"), message("map<string, string> a = 1;"), SCALAR),
    ("a map with another key", message("map<string, int32> a = 1;"), message("map<int32, int32> a = 1;"), SCALAR),
    ("a map instead of a number", message("int32 a = 1;"), message("map<string, int32> a = 1;"), KIND),
    ("a message instead of a map", message("map<string, int32> a = 1;"), message("I a = 1;", INNER), KIND),
    ("a number repeated", message("int32 a = 1;"), message("repeated int32 a = 1;"), LABEL),
    ("a number no longer repeated", message("repeated int32 a = 1;"), message("int32 a = 1;"), LABEL),
    ("a text repeated", message("string a = 1;"), message("repeated string a = 1;"), None),
    ("a message repeated", message("I a = 1;", INNER), message("repeated I a = 1;", INNER), None),
    ("a number optional", message("int32 a = 1;"), message("optional int32 a = 1;"), None),
    ("a required field more", message("optional int32 a = 1;", syntax="proto2"),
     message("optional int32 a = 1; required int32 b = 2;", syntax="proto2"), "REQUIRED_FIELD_ADDED"),
    ("a required field less", message("optional int32 a = 1; required int32 b = 2;", syntax="proto2"),
     message("optional int32 a = 1;", syntax="proto2"), "REQUIRED_FIELD_REMOVED"),
    ("a field that becomes required", message("optional int32 a = 1;", syntax="proto2"),
     message("required int32 a = 1;", syntax="proto2"), "REQUIRED_LABEL_ADDED"),
    ("a field that is no longer required", message("required int32 a = 1;", syntax="proto2"),
     message("optional int32 a = 1;", syntax="proto2"), None),
    ("an optional field more", message("required int32 a = 1;", syntax="proto2"),
     message("required int32 a = 1; optional int32 b = 2;", syntax="proto2"), None),
    ("a oneof more", message("int32 a = 1;"), message("int32 a = 1; oneof o { int32 b = 2; }"), None),
    ("a oneof with a field more", message("oneof o { int32 a = 1; }"),
     message("oneof o { int32 a = 1; int32 b = 2; }"), None),
    ("a oneof with a field less", message("oneof o { int32 a = 1; int32 b = 2; }"),
     message("oneof o { int32 a = 1; }"), "ONEOF_FIELD_REMOVED"),
    ("a oneof dissolved", message("oneof o { int32 a = 1; int32 b = 2; }"), message("int32 a = 1; int32 b = 2;"), None),
    ("one field into a new oneof", message("int32 a = 1;"), message("oneof o { int32 a = 1; int32 b = 2; }"), None),
    ("two fields into a oneof", message("int32 a = 1; int32 b = 2;"),
     message("oneof o { int32 a = 1; int32 b = 2; }"), "MULTIPLE_FIELDS_MOVED_TO_ONEOF"),
    ("a field into a oneof that was there", message("int32 a = 1; oneof o { int32 b = 2; }"),
     message("oneof o { int32 a = 1; int32 b = 2; }"), "FIELD_MOVED_TO_EXISTING_ONEOF"),
    ("a field of a oneof with another type", message("oneof o { int32 a = 1; }"),
     message("oneof o { string a = 1; }"), SCALAR),
    ("a recursive message", message("M m = 1;"), message("M m = 1; int32 a = 2;"), None),
    ("a reserved number", message("int32 a = 1; int32 b = 2;"), message("int32 a = 1; reserved 2;"), None),
    ("a comment and an option", message("int32 a = 1;"),
     message("int32 a = 1 [deprecated = true]; /* old */"), None),
]  # fmt: skip


def obj(properties: dict[str, object] | None = None, **more: object) -> dict[str, object]:
    return {"type": "object", "properties": properties or {}, **more}


S, N, Z = {"type": "string"}, {"type": "number"}, {"type": "integer"}
CLOSED = {"additionalProperties": False}
DRAFT7 = {"$schema": "http://json-schema.org/draft-07/schema#"}
ADD_OPEN = "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"
JSON_CASES: list[tuple[str, object, object, str | None]] = [
    ("a property added to an open object", obj({"a": S}), obj({"a": S, "b": S}), ADD_OPEN),
    ("any property added to an open object", obj({"a": S}), obj({"a": S, "b": {}}), None),
    ("a property removed from an open object", obj({"a": S, "b": S}), obj({"a": S}), None),
    ("a property added to a closed object", obj({"a": S}, **CLOSED), obj({"a": S, "b": S}, **CLOSED), None),
    ("a required property added to a closed object", obj({"a": S}, **CLOSED),
     obj({"a": S, "b": S}, required=["b"], **CLOSED), "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"),
    ("a required property with a default added", obj({"a": S}, **CLOSED),
     obj({"a": S, "b": {"type": "string", "default": ""}}, required=["b"], **CLOSED), None),
    ("a property removed from a closed object", obj({"a": S, "b": S}, **CLOSED), obj({"a": S}, **CLOSED),
     "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"),
    ("a property covered by a pattern added", obj({"a": S}, patternProperties={"^b": S}, **CLOSED),
     obj({"a": S, "b1": S}, patternProperties={"^b": S}, **CLOSED), None),
    ("a property not covered by a pattern added", obj({"a": S}, patternProperties={"^b": S}, **CLOSED),
     obj({"a": S, "b1": N}, patternProperties={"^b": S}, **CLOSED),
     "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"),
    ("a property that the rest does not cover removed", obj({"a": N}, additionalProperties=S),
     obj({}, additionalProperties=S), "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"),
    ("a property that the rest covers removed", obj({"a": S}, additionalProperties=S),
     obj({}, additionalProperties=S), None),
    ("required", obj({"a": S}), obj({"a": S}, required=["a"]), "REQUIRED_ATTRIBUTE_ADDED"),
    ("required with a default", obj({"a": S}), obj({"a": {"type": "string", "default": ""}}, required=["a"]), None),
    ("no longer required", obj({"a": S}, required=["a"]), obj({"a": S}), None),
    ("an object closed", obj({"a": S}), obj({"a": S}, **CLOSED), "ADDITIONAL_PROPERTIES_REMOVED"),
    ("an object opened", obj({"a": S}, **CLOSED), obj({"a": S}), None),
    ("the rest narrowed", obj({"a": S}), obj({"a": S}, additionalProperties=S), "ADDITIONAL_PROPERTIES_NARROWED"),
    ("the rest widened", obj({"a": S}, additionalProperties=Z), obj({"a": S}, additionalProperties=N), None),
    ("the rest of another type", obj({}, additionalProperties=S), obj({}, additionalProperties=N), "TYPE_CHANGED"),
    ("fewer properties at most", obj(maxProperties=5), obj(maxProperties=3), "MAX_PROPERTIES_DECREASED"),
    ("at most some properties", obj(), obj(maxProperties=3), "MAX_PROPERTIES_ADDED"),
    ("more properties at least", obj(minProperties=1), obj(minProperties=2), "MIN_PROPERTIES_INCREASED"),
    ("fewer properties at least", obj(minProperties=2), obj(minProperties=1), None),
    ("a dependency more", obj({"a": S, "b": S}), obj({"a": S, "b": S}, dependencies={"a": ["b"]}),
     "DEPENDENCY_ARRAY_ADDED"),
    ("a dependency less", obj({"a": S, "b": S}, dependencies={"a": ["b"]}), obj({"a": S, "b": S}), None),
    ("a dependency on more", obj({}, dependencies={"a": ["b"]}), obj({}, dependencies={"a": ["b", "c"]}),
     "DEPENDENCY_ARRAY_EXTENDED"),
    ("a dependency with a schema", obj(), obj({}, dependencies={"a": obj({"b": S})}), "DEPENDENCY_SCHEMA_ADDED"),
    ("a property of another type", obj({"a": S}), obj({"a": N}), "TYPE_CHANGED"),
    ("an integer to a number", Z, N, None),
    ("a number to an integer", N, Z, "TYPE_NARROWED"),
    ("a string to a number", S, N, "TYPE_CHANGED"),
    ("anything", S, {}, None),
    ("true", S, True, None),
    ("something of anything", {}, S, "TYPE_CHANGED"),
    ("longer texts", {"type": "string", "maxLength": 3}, {"type": "string", "maxLength": 5}, None),
    ("shorter texts", {"type": "string", "maxLength": 5}, {"type": "string", "maxLength": 3}, "MAX_LENGTH_DECREASED"),
    ("at most so long", S, {"type": "string", "maxLength": 3}, "MAX_LENGTH_ADDED"),
    ("at least so long", S, {"type": "string", "minLength": 3}, "MIN_LENGTH_ADDED"),
    ("at least longer", {"type": "string", "minLength": 1}, {"type": "string", "minLength": 3}, "MIN_LENGTH_INCREASED"),
    ("a pattern", S, {"type": "string", "pattern": "a"}, "PATTERN_ADDED"),
    ("another pattern", {"type": "string", "pattern": "a"}, {"type": "string", "pattern": "b"}, "PATTERN_CHANGED"),
    ("no pattern", {"type": "string", "pattern": "a"}, S, None),
    ("a maximum", N, {"type": "number", "maximum": 3}, "MAXIMUM_ADDED"),
    ("a lower maximum", {"type": "number", "maximum": 3}, {"type": "number", "maximum": 2}, "MAXIMUM_DECREASED"),
    ("a higher maximum", {"type": "number", "maximum": 3}, {"type": "number", "maximum": 4}, None),
    ("a minimum", N, {"type": "number", "minimum": 3}, "MINIMUM_ADDED"),
    ("a higher minimum", {"type": "number", "minimum": 3}, {"type": "number", "minimum": 4}, "MINIMUM_INCREASED"),
    ("an exclusive maximum", N, {"type": "number", "exclusiveMaximum": 3}, "EXCLUSIVE_MAXIMUM_ADDED"),
    ("a higher exclusive minimum", {"type": "number", "exclusiveMinimum": 3},
     {"type": "number", "exclusiveMinimum": 4}, "EXCLUSIVE_MINIMUM_INCREASED"),
    ("multiples", N, {"type": "number", "multipleOf": 2}, "MULTIPLE_OF_ADDED"),
    ("multiples of more", {"type": "number", "multipleOf": 2}, {"type": "number", "multipleOf": 4},
     "MULTIPLE_OF_EXPANDED"),
    ("multiples of less", {"type": "number", "multipleOf": 4}, {"type": "number", "multipleOf": 2}, None),
    ("multiples of others", {"type": "number", "multipleOf": 4}, {"type": "number", "multipleOf": 3},
     "MULTIPLE_OF_CHANGED"),
    ("a value more", {"enum": [1]}, {"enum": [1, 2]}, None),
    ("a value less", {"enum": [1, 2]}, {"enum": [1]}, "ENUM_ARRAY_NARROWED"),
    ("other values", {"enum": [1, 2]}, {"enum": [2, 3]}, "ENUM_ARRAY_CHANGED"),
    ("a constant to one of several", {"const": "a"}, {"enum": ["a", "b"]}, None),
    ("no enum any more", {"type": "string", "enum": ["a", "b"]}, S, None),
    ("no enum any more, and shorter texts", {"enum": ["a", "bbb"]}, {"type": "string", "maxLength": 2}, "TYPE_CHANGED"),
    ("no enum any more, and texts as short", {"enum": ["a", "bb"]}, {"type": "string", "maxLength": 2}, None),
    ("no enum any more, and a pattern", {"enum": ["a"]}, {"type": "string", "pattern": "^b"}, "TYPE_CHANGED"),
    ("an enum of two types to both", {"enum": ["a", None]}, {"type": ["string", "null"]}, None),
    ("an enum of two types to one", {"enum": ["a", None]}, S, "TYPE_CHANGED"),
    ("a constant to its type", {"const": 3}, Z, None),
    ("a constant to a smaller one", {"const": 3}, {"type": "integer", "maximum": 2}, "TYPE_CHANGED"),
    ("an enum to an alternative", {"enum": ["a"]}, {"anyOf": [N, S]}, None),
    ("an enum to its type and more", {"const": 3}, {"type": ["integer", "null"], "allOf": [{"type": "boolean"}]},
     "TYPE_CHANGED"),
    ("an enum to its type, forbidden", {"const": 3}, {"type": "integer", "not": {"const": 3}}, "TYPE_CHANGED"),
    ("a number written otherwise", {"enum": [1]}, {"enum": [1.0]}, None),
    ("an object written otherwise", {"enum": [{"a": 1, "b": 2}]}, {"enum": [{"b": 2, "a": 1}]}, None),
    ("an alternative of the same number", {"oneOf": [{"enum": [1]}]}, {"oneOf": [{"enum": [1]}, {"enum": [1.0, 2]}]},
     "COMBINED_TYPE_SUBSCHEMAS_CHANGED"),
    ("an alternative of the same object", {"oneOf": [{"enum": [{"a": 1, "b": 2}]}, S]},
     {"oneOf": [{"enum": [{"a": 1, "b": 2}]}, S, {"enum": [{"b": 2, "a": 1}]}]}, "COMBINED_TYPE_SUBSCHEMAS_CHANGED"),
    ("items of more", {"type": "array", "items": Z}, {"type": "array", "items": N}, None),
    ("items of others", {"type": "array", "items": S}, {"type": "array", "items": N}, "TYPE_CHANGED"),
    ("fewer items at most", {"type": "array", "maxItems": 5}, {"type": "array", "maxItems": 3}, "MAX_ITEMS_DECREASED"),
    ("some items at least", {"type": "array"}, {"type": "array", "minItems": 1}, "MIN_ITEMS_ADDED"),
    ("no item twice", {"type": "array"}, {"type": "array", "uniqueItems": True}, "UNIQUE_ITEMS_ADDED"),
    ("an item added to an open tuple", {"type": "array", "items": [S]}, {"type": "array", "items": [S, N]},
     "ITEM_ADDED_TO_OPEN_CONTENT_MODEL"),
    ("an item added to a closed tuple", {"type": "array", "items": [S], "additionalItems": False},
     {"type": "array", "items": [S, N], "additionalItems": False}, None),
    ("an item removed from a closed tuple", {"type": "array", "items": [S, N], "additionalItems": False},
     {"type": "array", "items": [S], "additionalItems": False}, "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL"),
    ("a tuple closed", {"type": "array", "items": [S]}, {"type": "array", "items": [S], "additionalItems": False},
     "ADDITIONAL_ITEMS_REMOVED"),
    ("a type more", S, {"type": ["string", "null"]}, None),
    ("a type less", {"type": ["string", "null"]}, S, "TYPE_CHANGED"),
    ("an alternative more", {"oneOf": [S]}, {"oneOf": [S, N]}, None),
    ("an alternative less", {"oneOf": [S, N]}, {"oneOf": [S]}, "SUM_TYPE_NARROWED"),
    ("other alternatives", {"anyOf": [S, N]}, {"anyOf": [S, {"type": "null"}]}, "COMBINED_TYPE_SUBSCHEMAS_CHANGED"),
    ("alternatives in another order", {"anyOf": [S, N]}, {"anyOf": [N, S]}, None),
    ("a condition more", {"allOf": [S]}, {"allOf": [S, {"type": "string", "minLength": 3}]}, "PRODUCT_TYPE_EXTENDED"),
    ("a condition less", {"allOf": [S, {"type": "string", "minLength": 3}]}, {"allOf": [S]}, None),
    ("one of instead of any of", {"anyOf": [S, N]}, {"oneOf": [S, N]}, "COMBINED_TYPE_CHANGED"),
    ("any of instead of one of", {"oneOf": [S, N]}, {"anyOf": [S, N]}, None),
    ("the same condition twice", {"allOf": [S]}, {"allOf": [S, S]}, None),
    ("all of one instead of one of one", {"oneOf": [S]}, {"allOf": [S]}, None),
    ("one of two instead of any of one", {"anyOf": [S]}, {"oneOf": [N, S]}, None),
    ("one of two instead of all of one", {"allOf": [N]}, {"oneOf": [N, S]}, None),
    ("all of two instead of any of one", {"anyOf": [S]}, {"allOf": [N, S]}, "COMBINED_TYPE_CHANGED"),
    ("an alternative beside a bound", {"anyOf": [S], "minLength": 3}, {"anyOf": [S]}, None),
    ("an alternative with a bound beside it", {"anyOf": [S]}, {"anyOf": [S], "minLength": 3}, "COMBINED_TYPE_CHANGED"),
    ("less forbidden", {"not": N}, {"not": Z}, None),
    ("more forbidden", {"not": Z}, {"not": N}, "NOT_TYPE_EXTENDED"),
    ("a definition", obj({"a": {"$ref": "#/definitions/x"}}, definitions={"x": S}), obj({"a": S}), None),
    ("a definition that changed", obj({"a": {"$ref": "#/definitions/x"}}, definitions={"x": S}),
     obj({"a": {"$ref": "#/definitions/x"}}, definitions={"x": N}), "TYPE_CHANGED"),
    ("a recursive schema", obj({"next": {"$ref": "#"}}), obj({"next": {"$ref": "#"}}), None),
    ("a title", S, {"type": "string", "title": "a text"}, None),
    ("a restriction beside a definition", {"$ref": "#/$defs/x", "$defs": {"x": S}},
     {"$ref": "#/$defs/x", "minLength": 3, "$defs": {"x": S}}, "TYPE_CHANGED"),
    ("the same restriction beside a definition", {"$ref": "#/$defs/x", "minLength": 3, "$defs": {"x": S}},
     {"$ref": "#/$defs/x", "minLength": 3, "$defs": {"x": S}}, None),
    ("a description beside a definition", {"$ref": "#/$defs/x", "$defs": {"x": S}},
     {"$ref": "#/$defs/x", "description": "a", "$defs": {"x": S}}, None),
    ("what draft 7 does not see beside a definition", {**DRAFT7, "$ref": "#/definitions/x", "definitions": {"x": S}},
     {**DRAFT7, "$ref": "#/definitions/x", "minLength": 3, "definitions": {"x": S}}, None),
    ("what is not evaluated is forbidden", obj({"a": S}), obj({"a": S}, unevaluatedProperties=False),
     "UNEVALUATED_PROPERTIES_ADDED"),
    ("a property removed where no other is evaluated", obj({"a": S, "b": S}, unevaluatedProperties=False),
     obj({"a": S}, unevaluatedProperties=False), "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"),
    ("a property added where no other is evaluated", obj({"a": S}, unevaluatedProperties=False),
     obj({"a": S, "b": S}, unevaluatedProperties=False), None),
    ("a property added that another part evaluates",
     obj({"a": S}, unevaluatedProperties=False, allOf=[obj({"b": N})]),
     obj({"a": S, "b": S}, unevaluatedProperties=False, allOf=[obj({"b": N})]), "COMBINED_TYPE_SUBSCHEMAS_CHANGED"),
    ("items that are not evaluated are forbidden", {"type": "array"}, {"type": "array", "unevaluatedItems": False},
     "UNEVALUATED_ITEMS_ADDED TYPE_CHANGED"),
    ("names of properties", obj(), obj(propertyNames={"minLength": 2}), "PROPERTY_NAMES_ADDED"),
    ("any names of properties", obj(), obj(propertyNames=True), None),
    ("fewer names of properties", obj(propertyNames={"minLength": 2}), obj(propertyNames={"minLength": 3}),
     "PROPERTY_NAMES_CHANGED"),
    ("more names of properties", obj(propertyNames={"minLength": 3}), obj(propertyNames={"minLength": 2}), None),
    ("an item that must be there", {"type": "array"}, {"type": "array", "contains": S}, "CONTAINS_ADDED"),
    ("another item that must be there", {"type": "array", "contains": S}, {"type": "array", "contains": N},
     "CONTAINS_CHANGED"),
    ("more items that must be there", {"type": "array", "contains": S, "minContains": 1},
     {"type": "array", "contains": S, "minContains": 2}, "MIN_CONTAINS_CHANGED"),
    ("no item that must be there", {"type": "array", "contains": S}, {"type": "array"}, None),
    ("a case", obj({"a": S}), obj({"a": S}, **{"if": obj({"a": {"const": "x"}}), "then": obj(required=["b"])}),
     "IF_ADDED THEN_ADDED"),
    ("another case", obj(**{"if": obj(required=["a"]), "then": obj(required=["b"])}),
     obj(**{"if": obj(required=["a"]), "then": obj(required=["b", "c"])}), "THEN_CHANGED"),
    ("the same case", obj(**{"if": obj(required=["a"]), "then": {"$ref": "#/$defs/x"}, "$defs": {"x": obj()}}),
     obj(**{"if": obj(required=["a"]), "then": {"$ref": "#/$defs/x"}, "$defs": {"x": obj()}}), None),
    ("the same case by a definition that changed",
     obj(**{"if": obj(required=["a"]), "then": {"$ref": "#/$defs/x"}, "$defs": {"x": obj()}}),
     obj(**{"if": obj(required=["a"]), "then": {"$ref": "#/$defs/x"}, "$defs": {"x": obj(required=["b"])}}),
     "THEN_CHANGED"),
    ("only a case", {}, {"if": S, "then": {"minLength": 3}}, "IF_ADDED THEN_ADDED"),
    ("less that is evaluated", {"const": {"a": 1}, "additionalProperties": {}, "unevaluatedProperties": False},
     {"const": {"a": 1}, "unevaluatedProperties": False}, "UNEVALUATED_PROPERTIES_CHANGED"),
    ("a definition that evaluates less",
     {"$ref": "#/$defs/x", "unevaluatedProperties": False, "$defs": {"x": obj({"a": S, "b": S})}},
     {"$ref": "#/$defs/x", "unevaluatedProperties": False, "$defs": {"x": obj({"a": S})}},
     "UNEVALUATED_PROPERTIES_CHANGED"),
    ("a definition that evaluates as much",
     {"$ref": "#/$defs/x", "unevaluatedProperties": False, "$defs": {"x": obj({"a": S, "b": S})}},
     {"$ref": "#/$defs/x", "unevaluatedProperties": False, "title": "t", "$defs": {"x": obj({"a": S, "b": S})}}, None),
    ("a case that comes about", {"then": False}, {"if": True, "then": False}, "IF_ADDED"),
    ("a case less", {"if": S, "then": {"minLength": 3}}, {}, None),
    ("a pattern of properties in an open object", obj(), obj(patternProperties={"^b": S}), "PATTERN_PROPERTY_ADDED"),
    ("a pattern of properties narrowed", obj(patternProperties={"^b": N}), obj(patternProperties={"^b": Z}),
     "PATTERN_PROPERTY_CHANGED"),
    ("a pattern of properties widened", obj(patternProperties={"^b": Z}), obj(patternProperties={"^b": N}), None),
    ("a pattern of properties less in a closed object", obj(patternProperties={"^b": Z}, **CLOSED), obj(**CLOSED),
     "PATTERN_PROPERTY_REMOVED"),
    ("a pattern of properties less in an open object", obj(patternProperties={"^b": Z}), obj(), None),
    ("a pattern of properties that one has already", obj({"b1": S}, **CLOSED),
     obj({"b1": S}, patternProperties={"^b": N}, **CLOSED), "PATTERN_PROPERTY_ADDED"),
    ("properties that need others", obj(), obj(dependentRequired={"a": ["b"]}), "DEPENDENCY_ARRAY_ADDED"),
    ("properties that need others, beside those that need a schema",
     obj(dependentSchemas={"a": obj()}), obj(dependentSchemas={"a": obj()}, dependentRequired={"a": ["b"]}),
     "DEPENDENCY_ARRAY_ADDED"),
    ("a required property that no schema names", obj({"a": S}), obj({"a": S}, required=["x"]),
     "REQUIRED_ATTRIBUTE_ADDED"),
    ("a required property of any kind added to an open object", obj({"a": S}),
     obj({"a": S, "b": {}}, required=["b"]), "REQUIRED_ATTRIBUTE_ADDED"),
    ("a type where there was none", {"minLength": 1}, {"type": "string", "minLength": 1}, "TYPE_NARROWED"),
    ("no type where there was one", {"type": "string", "minLength": 1}, {"minLength": 1}, None),
    ("a bound of another type", {"minLength": 1}, {"minLength": 1, "minimum": 5}, "TYPE_CHANGED"),
    ("bounds of two types", {"minLength": 1, "minimum": 5}, {"minLength": 1, "minimum": 4}, None),
    ("narrower bounds of two types", {"minLength": 1, "minimum": 5}, {"minLength": 1, "minimum": 6},
     "COMBINED_TYPE_SUBSCHEMAS_CHANGED"),
    ("a type beside an enum", {"enum": ["a", 1]}, {"enum": ["a", 1], "type": "string"}, "ENUM_ARRAY_NARROWED"),
    ("a length beside an enum", {"enum": ["a", "bbb"]}, {"enum": ["a", "bbb"], "minLength": 2}, "ENUM_ARRAY_NARROWED"),
    ("a constant of several types", {"const": None, "type": ["null", "string"]}, {"const": None}, None),
    ("fewer types beside alternatives", {"type": ["string", "null"], "anyOf": [S, {"type": "null"}]},
     {"type": ["string", "number"], "anyOf": [S, {"type": "null"}]}, "COMBINED_TYPE_SUBSCHEMAS_CHANGED"),
    ("a property removed of an object or null", {**obj({"a": S, "b": S}), "type": ["object", "null"],
     "unevaluatedProperties": False}, {**obj({"a": S}), "type": ["object", "null"], "unevaluatedProperties": False},
     "COMBINED_TYPE_SUBSCHEMAS_CHANGED"),
    ("an exclusive bound of draft 4", {"type": "number", "maximum": 3},
     {"type": "number", "maximum": 3, "exclusiveMaximum": True}, "EXCLUSIVE_MAXIMUM_ADDED"),
]  # fmt: skip

CASES = [
    *[(AVRO, what, _plain, now, rule) for what, _plain, now, rule in AVRO_CASES],
    *[(PROTOBUF, what, was, now, rule) for what, was, now, rule in PROTOBUF_CASES],
    *[(JSON, what, was, now, rule) for what, was, now, rule in JSON_CASES],
]


def text(kind: str, schema: object) -> str:
    return str(schema) if kind == PROTOBUF else json.dumps(_unmarked(schema))


def _unmarked(value: object) -> object:
    if isinstance(value, dict):
        return {key: _unmarked(each) for key, each in value.items() if key != "field" or each != 1}
    return [_unmarked(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("kind", "what", "was", "now", "rule"), CASES, ids=[f"{c[0].lower()}: {c[1]}" for c in CASES]
)
def test_what_a_new_version_may_do(kind, what, was, now, rule):
    old = kinds.parse(kind, text(kind, was), is_new=False)
    new = kinds.parse(kind, text(kind, now), is_new=False)
    found = new.unreadable(old)
    assert {each.type for each in found} == set((rule or "").split()), found
    for each in found:
        said = each.said("new", "old")
        assert each.path in said and "{" not in said.strip("{}") and each.sentence
        assert each.type == NAME or ("new" in said and "old" in said)


@pytest.mark.parametrize(
    ("kind", "was", "now"),
    [(c[0], c[2], c[3]) for c in CASES],
    ids=[f"{c[0]}: {c[1]}" for c in CASES],
)
def test_levels_read_a_case_in_their_direction(kind, was, now):
    old = kinds.parse(kind, text(kind, was), is_new=False)
    new = kinds.parse(kind, text(kind, now), is_new=False)
    backward, forward = bool(new.unreadable(old)), bool(old.unreadable(new))
    known = [Known(1, old)]
    assert bool(complaints(new, known, "BACKWARD")) == backward
    assert bool(complaints(new, known, "FORWARD")) == forward
    assert bool(complaints(new, known, "FULL")) == (backward or forward)
    assert complaints(new, known, "NONE") == []


def test_there_are_enough_cases():
    assert len(CASES) >= 150
    assert sum(1 for case in CASES if case[4]) >= 80
    assert len({(case[0], case[4]) for case in CASES if case[4]}) >= 50


def test_transitive_levels_look_at_every_version():
    one = kinds.parse(AVRO, text(AVRO, record(field("a", "int"))))
    two = kinds.parse(AVRO, text(AVRO, record()))
    three = kinds.parse(AVRO, text(AVRO, record(field("a", "string", default=""))))
    known = [Known(1, one), Known(2, two)]
    assert complaints(three, known, "BACKWARD") == []
    said = complaints(three, known, "BACKWARD_TRANSITIVE")
    assert "TYPE_MISMATCH" in said[0] and "{oldSchemaVersion: 1}" in said


def test_another_type_of_schema_is_never_compatible():
    one, two = kinds.parse(AVRO, '"string"'), kinds.parse(JSON, '{"type":"string"}')
    assert "different schema type" in complaints(two, [Known(1, one)], "FORWARD")[0]
