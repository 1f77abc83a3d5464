"""Rows as Protobuf: what a message cannot hold is refused by its column's name, and names get along."""

from __future__ import annotations

import pytest

from headwater.capture.avro import AvroEncoder
from headwater.capture.binary_encoder import BinaryEncoder
from headwater.capture.envelope import Column
from headwater.capture.errors import SourceRefused
from headwater.capture.protobuf import ProtobufEncoder
from headwater.schemas.model import PROTOBUF, Schema
from headwater.schemas.values.codecs import Found, codec

ID = Column("id", (("type", "int32"),))
SOURCE = {"type": "struct", "name": "shop.Source", "fields": []}


def encoder(*columns: Column, is_avro: bool = False) -> tuple[BinaryEncoder, dict[str, str]]:
    """With the texts that it registers."""
    texts: dict[str, str] = {}

    def identify(part: str, text: str) -> int:
        texts[part] = text
        return 7

    if is_avro:
        return AvroEncoder("shop.t", [ID, *columns], (0,), SOURCE, identify=identify), texts
    return ProtobufEncoder("shop.t", [ID, *columns], (0,), SOURCE, lambda _: [], identify), texts


def row(made: BinaryEncoder, *values: str) -> bytes:
    _, _, value = made.created(["1", *values], "{}", ',"ts_ms":1')
    assert value is not None
    return value


def test_columns_whose_names_differ_by_an_underscore_are_two_fields():
    made, texts = encoder(Column("_id"), Column("X_id"))
    value = row(made, '"a"', '"b"')
    found = codec(Found(7, Schema(texts["value"], PROTOBUF))).decode(value[5:])
    assert found["after"] == {"id": 1, "_id": "a", "X_id": "b"}


def test_a_list_with_null_in_it_is_refused_by_its_column():
    numbers = (("type", "array"), ("items", {"type": "int32", "optional": True}))
    made, _ = encoder(Column("numbers", numbers))
    with pytest.raises(SourceRefused, match=r"'numbers'.*null"):
        row(made, "[1,null]")
    assert row(made, "[1,2]")


@pytest.mark.parametrize("is_avro", [False, True])
def test_half_a_character_is_refused_by_its_column(is_avro):
    made, _ = encoder(Column("note"), is_avro=is_avro)
    with pytest.raises(SourceRefused, match="'note'"):
        row(made, r'"\ud800"')
