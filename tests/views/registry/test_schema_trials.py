"""How the columns of a topic's schemas differ: also inside of structs, lists and maps."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql.types import ArrayType, LongType, MapType, StringType, StructField, StructType

from headwater.pipelines.schema_trials import Moved, missing, paths_by, paths_in
from headwater.schemas.model import JSON, Schema
from headwater.schemas.values.codecs import Found


def found(identity: int, *names: str) -> Found:
    """A row with these inside of a column, a list and a map."""
    text: dict[str, Any] = {"type": "string"}
    inner = {"type": "object", "properties": dict.fromkeys(names, text)}
    properties = {"id": {"type": "integer"}, "in": inner, "l": {"type": "array", "items": inner},
                  "m": {"type": "object", "additionalProperties": inner}}  # fmt: skip
    document = {"type": "object", "properties": properties}
    return Found(identity, Schema(json.dumps(document), JSON))


def test_what_came_or_went_inside_of_a_column_is_seen():
    more = Moved("s", found(1, "a"), found(2, "a", "b, c"), "")
    less = Moved("s", more.now, more.was, "")
    assert more.has_others and more.lost == []
    assert less.has_others and less.lost == ["in.b, c", "l.b, c", "m.b, c"]
    assert not Moved("s", more.was, found(3, "a"), "").has_others


def test_of_a_column_that_is_not_there_at_all_only_itself_is_named():
    was = paths_by(found(1, "a", "b"))
    assert missing([("id",), ("in",), ("in", "a")], was) == ["in.b", "l", "m"]


def test_the_columns_of_a_view_are_named_alike():
    inner = StructType([StructField("a", StringType()), StructField("b, c", StringType())])
    row = StructType([StructField("id", LongType()), StructField("in", inner),
                      StructField("l", ArrayType(inner)),
                      StructField("m", MapType(StringType(), inner))])  # fmt: skip
    assert paths_in(row) == paths_by(found(1, "a", "b, c"))
