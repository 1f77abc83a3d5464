"""The columns that a registry's schema says, whatever letters their names have."""

from __future__ import annotations

import json

import pytest

from headwater.schemas.model import JSON, Schema
from headwater.schemas.values.codecs import Found
from headwater.spark.source.values.registry_types import ddl, row_columns

ODD = ("a, b", "x<y", "a>b", "net (€)", "a`b", "a`: b", "``")


def found(properties: dict[str, object]) -> Found:
    return Found(1, Schema(json.dumps({"type": "object", "properties": properties}), JSON))


@pytest.mark.parametrize("name", ODD)
def test_a_column_may_have_any_name(name):
    inner = {"type": "object", "properties": {name: {"type": "integer"}}}
    schema = found({"id": {"type": "integer"}, name: {"type": "string"}, "in": inner})
    spelt = "`" + name.replace("`", "``") + "`"
    assert ddl(schema) == f"STRUCT<`id`: BIGINT, {spelt}: STRING, `in`: STRUCT<{spelt}: BIGINT>>"
    assert row_columns(schema) == {"id": "BIGINT", name: "STRING", "in": f"STRUCT<{spelt}: BIGINT>"}


@pytest.mark.parametrize("name", ODD)
def test_so_may_one_of_a_captured_row(name):
    row = {"type": "object", "properties": {name: {"type": "string"}, "n": {"type": "number"}}}
    change = {"before": row, "after": row, "op": {"type": "string"}}
    assert row_columns(found(change)) == {name: "STRING", "n": "DOUBLE"}
