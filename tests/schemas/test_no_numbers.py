"""NaN and the infinities, which JSON has not: texts, as captures write them, and the same bytes again."""

from __future__ import annotations

import json
import math
import struct

import pytest

from headwater.browse.decoder import Shown
from headwater.client.records import Record
from headwater.edges.feeds import bodies
from headwater.schemas.protobuf.document import parse
from headwater.schemas.values.avro import AvroCodec
from headwater.schemas.values.codecs import Codec
from headwater.schemas.values.protobuf import ProtobufCodec

NUMBERS = [("NaN", math.nan), ("Infinity", math.inf), ("-Infinity", -math.inf), (1.5, 1.5)]
SIZES = {"double": "<d", "float": "<f"}


def avro(kind: str, value: float) -> tuple[Codec, bytes]:
    fields = [{"name": "a", "type": kind}, {"name": "l", "type": {"type": "array", "items": kind}}]
    text = json.dumps({"type": "record", "name": "R", "fields": fields})
    one = struct.pack(SIZES[kind], value)
    return AvroCodec(text), one + b"\2" + one + b"\0"


def protobuf(kind: str, value: float) -> tuple[Codec, bytes]:
    text = f'syntax = "proto3"; message R {{ {kind} a = 1; repeated {kind} l = 2; }}'
    one = struct.pack(SIZES[kind], value)
    tag = bytes([8 | (1 if kind == "double" else 5)])
    body = b"\0" + tag + one + b"\x12" + bytes([len(one)]) + one
    return ProtobufCodec(parse(text, (), is_new=True)), body


@pytest.mark.parametrize("kind", sorted(SIZES))
@pytest.mark.parametrize("made", [avro, protobuf])
@pytest.mark.parametrize(("said", "value"), NUMBERS)
def test_what_is_no_number_in_json_is_a_text(made, kind, said, value):
    codec, body = made(kind, value)
    found = codec.decode(body)
    assert found == {"a": said, "l": [said]}
    assert codec.encode_text(json.dumps(found, allow_nan=False)) == body


class Decoder:
    def decode(self, data: bytes, topic: str) -> Shown:
        codec, body = avro("double", math.nan)
        return Shown(codec.kind, "", codec.decode(body))


def test_it_is_not_null_in_a_feed():
    record = Record("t", 0, 0, 0, None, b"\0\0\0\0\1", [])
    found = json.loads(bodies.of_record(record, Decoder()))  # type: ignore[arg-type]
    assert found["value"] == {"a": "NaN", "l": ["NaN"]}
