"""The text that is kept of an Avro schema names the types that were sent, in either form."""

from __future__ import annotations

import json

import pytest

from headwater.schemas import kinds
from headwater.schemas.avro.document import AvroSchema
from headwater.schemas.avro.types import Type
from headwater.schemas.model import AVRO

EMPTY = {"type": "record", "fields": []}
TYPES = {
    "of no namespace": [{**EMPTY, "name": "X", "namespace": ""}],
    "of no namespace beside one of the record's": [
        {**EMPTY, "name": "X"},
        {**EMPTY, "name": "X", "namespace": ""},
    ],
    "of no namespace that names another": [
        {**EMPTY, "name": "X"},
        {**EMPTY, "name": "Y", "namespace": "", "fields": [
            {"name": "x", "type": {**EMPTY, "name": "X"}}, {"name": "again", "type": "X"}]},
        "X",
    ],
    "of a primitive's name": [{**EMPTY, "name": "a.string"}, "a.string", "string"],
    "of a kind's name": [{**EMPTY, "name": "a.map"}, "a.map"],
    "an enum of no namespace": [
        {"type": "enum", "name": "E", "namespace": "", "symbols": ["A"]}],
}  # fmt: skip


def parsed(text: str) -> AvroSchema:
    found = kinds.parse(AVRO, text, (), is_new=True)
    assert isinstance(found, AvroSchema)
    return found


def names(kind: Type) -> list[object]:
    return [kind.kind, kind.name, *(names(each.type) for each in kind.fields)]


@pytest.mark.parametrize("form", ["canonical", "normalized"])
@pytest.mark.parametrize("types", TYPES.values(), ids=TYPES)
def test_what_is_kept_names_the_types_that_were_sent(types: list[object], form: str):
    fields = [{"name": f"f{number}", "type": each} for number, each in enumerate(types)]
    record = {"type": "record", "name": "R", "namespace": "a", "fields": fields}
    sent = parsed(json.dumps(record))
    kept = parsed(getattr(sent, form))
    assert names(kept.root) == names(sent.root)
    assert getattr(kept, form) == getattr(sent, form)
