"""Every message of every API version: written so that kio reads the same, read as kio wrote it, and
anything else refused with WireError and nothing worse."""

from __future__ import annotations

import resource
import struct
import subprocess
import sys
import time
import uuid
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from io import BytesIO
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.serial._introspect import EntityField, EntityTupleField, classify_field, is_optional
from kio.static.constants import EntityType

from headwater.wire import messages
from headwater.wire.errors import TooManyElements
from headwater.wire.messages import Header, WireError
from headwater.wire.writer import uvarint

CORRELATION_ID = 77
_TEXT = "aZ0-_. é€😀"


# ---- random messages -------------------------------------------------------------------------


def _integer(bits: int, *, signed: bool = True) -> Any:
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    return lambda dice: dice.choice((0, 1, low, high, dice.randint(low, high)))


def _milliseconds(dice: Random) -> timedelta:
    return timedelta(milliseconds=dice.choice((0, 1, 2**31 - 1, dice.randint(0, 2**31 - 1))))


def _moment(dice: Random) -> datetime:
    return datetime.fromtimestamp(dice.randint(0, 2**32), UTC) + timedelta(
        milliseconds=dice.randint(0, 999)
    )


def _text(dice: Random) -> str:
    length = dice.choice((0, 1, 3, 130))  # 130: the length takes two bytes in compact form
    return "".join(dice.choices(_TEXT, k=length))


_ERRORS = tuple(ErrorCode)
_PRIMITIVES: dict[str, Any] = {
    "int8": _integer(8),
    "int16": _integer(16),
    "int32": _integer(32),
    "int64": _integer(64),
    "uint16": _integer(16, signed=False),
    "float64": lambda dice: dice.uniform(-1e9, 1e9),
    "bool": lambda dice: dice.random() < 0.5,
    "string": _text,
    "bytes": lambda dice: dice.randbytes(dice.choice((0, 1, 200))),
    "records": lambda dice: dice.randbytes(dice.choice((0, 61, 5000))),
    "uuid": lambda dice: uuid.UUID(int=dice.getrandbits(128) | 1),
    "error_code": lambda dice: dice.choice(_ERRORS),
    "timedelta_i32": _milliseconds,
    "timedelta_i64": _milliseconds,
    "datetime_i64": _moment,
}


def filled(entity: Any, dice: Random) -> Any:
    """A kio entity with a random value in every field."""
    return entity(**{field.name: _value(field, dice) for field in fields(entity)})


def _value(field: Any, dice: Random) -> Any:
    kind = classify_field(field)
    if is_optional(field) and dice.random() < 0.3:
        return None
    if isinstance(kind, EntityField):
        return filled(kind.type_, dice)
    if isinstance(kind, EntityTupleField):
        return tuple(filled(kind.type_, dice) for _ in range(dice.choice((0, 1, 2))))
    primitive = _PRIMITIVES[field.metadata["kafka_type"]]
    if kind.is_array:
        return tuple(primitive(dice) for _ in range(dice.choice((0, 1, 3))))
    return primitive(dice)


def as_handler_says(entity: Any) -> dict[str, Any]:
    """The same message as the dict that a handler returns: integers of milliseconds, lists."""
    return {field.name: _plain(getattr(entity, field.name), field) for field in fields(entity)}


def _plain(value: Any, field: Any) -> Any:
    if hasattr(value, "__dataclass_fields__"):
        return as_handler_says(value)
    if isinstance(value, tuple):
        return [_plain(item, field) for item in value]
    if isinstance(value, timedelta):
        return round(value / timedelta(milliseconds=1))
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, ErrorCode):
        return value.value
    if value is None and field.metadata.get("kafka_type") == "datetime_i64":
        return -1
    return value


def every(kind: EntityType) -> list[Any]:
    return [
        pytest.param(key, version, id=f"{name}-v{version}")
        for key, name in sorted(api_key_map.items())
        for version, entities in sorted(schema_name_map[name].items())
        if kind in entities
    ]


def request_frame(key: int, version: int, entity: Any, client_id: bytes | None = b"me") -> bytes:
    """The request as kio's own writer spells it, without the size in front."""
    out = BytesIO()
    entity_writer(type(entity))(out, entity)
    length = -1 if client_id is None else len(client_id)
    head = struct.pack(">hhih", key, version, CORRELATION_ID, length) + (client_id or b"")
    return head + (b"\0" if type(entity).__flexible__ else b"") + out.getvalue()


def decode(frame: bytes) -> Any:
    return messages.decode(frame, messages.read_header(frame))


# ---- responses -------------------------------------------------------------------------------


@pytest.mark.parametrize(("key", "version"), every(EntityType.response))
def test_a_response_is_read_by_kio_as_it_was_meant(key: int, version: int) -> None:
    schema: Any = load_response_schema(key, version)
    for seed in range(3):
        entity = filled(schema, Random(seed))
        said = as_handler_says(entity)
        frame = b"".join(messages.encode(key, version, CORRELATION_ID, said))
        assert messages.encode(key, version, CORRELATION_ID, said, is_list=True) == [frame]
        assert struct.unpack_from(">ii", frame) == (len(frame) - 4, CORRELATION_ID)
        # KIP-511: ApiVersions answers with the oldest header, for clients that guessed too high.
        start = 9 if schema.__flexible__ and key != messages.API_VERSIONS else 8
        assert entity_reader(schema)(frame, start) == (entity, len(frame) - start)


@pytest.mark.parametrize(("key", "version"), every(EntityType.response))
def test_a_response_that_says_nothing_gets_the_protocols_defaults(key: int, version: int) -> None:
    schema: Any = load_response_schema(key, version)
    frame = b"".join(messages.encode(key, version, CORRELATION_ID, {}))
    start = 9 if schema.__flexible__ and key != messages.API_VERSIONS else 8
    entity, size = entity_reader(schema)(frame, start)
    assert start + size == len(frame)
    for field in fields(schema):
        if field.default is not field.default_factory:  # both are MISSING where there is none
            assert getattr(entity, field.name) == field.default, field.name


def test_keys_of_other_versions_are_left_out() -> None:
    names = {"throttle_time": 5, "error_code": 0, "session_id": 9, "responses": ()}
    old, new = (b"".join(messages.encode(1, version, 0, names)) for version in (4, 12))
    assert entity_reader(load_response_schema(1, 4))(old, 8)[1] == len(old) - 8
    assert entity_reader(load_response_schema(1, 12))(new, 9)[0].session_id == 9  # type: ignore[attr-defined]


def test_record_data_is_passed_on_uncopied() -> None:
    data = [memoryview(bytes(5000)), memoryview(bytes(6000))]
    partition = {"partition_index": 0, "high_watermark": 1, "records": data}
    body = {"responses": [{"topic": "t", "partitions": [partition]}]}
    chunks = messages.encode(1, 12, 0, body)
    assert [chunk for chunk in chunks if isinstance(chunk, memoryview)] == data
    assert sum(map(len, chunks)) == struct.unpack_from(">i", chunks[0])[0] + 4  # type: ignore[arg-type]


# ---- requests --------------------------------------------------------------------------------


@pytest.mark.parametrize(("key", "version"), every(EntityType.request))
def test_a_request_is_read_as_kio_wrote_it(key: int, version: int) -> None:
    schema: Any = load_request_schema(key, version)
    for seed, client_id in enumerate((b"me", None, b"")):
        entity = filled(schema, Random(seed))
        frame = request_frame(key, version, entity, client_id)
        header = messages.read_header(frame)
        name = (client_id or b"").decode()
        assert header == Header(key, version, CORRELATION_ID, name, 10 + len(name))
        assert messages.decode(frame, header) == entity


@pytest.mark.parametrize(("key", "version"), every(EntityType.request))
def test_a_request_that_is_not_whole_is_refused(key: int, version: int) -> None:
    dice = Random(version)
    frame = request_frame(key, version, filled(load_request_schema(key, version), dice))
    cuts = range(len(frame)) if len(frame) < 200 else sorted(dice.sample(range(len(frame)), 100))
    for cut in cuts:
        with pytest.raises(WireError):
            decode(frame[:cut])


@pytest.mark.parametrize(("key", "version"), every(EntityType.request))
def test_bytes_behind_a_request_are_ignored_as_kafka_does(key: int, version: int) -> None:
    entity = filled(load_request_schema(key, version), Random(version))
    frame = request_frame(key, version, entity)
    for more in (b"\0", b"\0\0\0", b"\xff" * 10):
        assert decode(frame + more) == entity


# kio's parser is native code: what it does wrong ends the process, so these run in a child of their
# own, with so little address space that believing a false length is fatal.


def try_damaged_requests(key: int, version: int) -> None:
    dice = Random(1000 + version)
    frame = request_frame(key, version, filled(load_request_schema(key, version), dice))
    for _ in range(20):
        damaged = bytearray(frame)
        for _ in range(dice.randint(1, 6)):
            damaged[dice.randrange(10, len(frame))] = dice.choice((0, 0x7F, 0x80, 0xFF, 1))
        refused_or_parsed(bytes(damaged))


def try_huge_lengths(key: int, version: int) -> None:
    schema: Any = load_request_schema(key, version)
    head = struct.pack(">hhih", key, version, 0, -1) + (b"\0" if schema.__flexible__ else b"")
    for length in ("7fffffff", "ffffffff0f", "ffffff7f"):
        for lead in range(22):
            for fill in (b"\0", b"\1"):
                refused_or_parsed(head + fill * lead + bytes.fromhex(length) + bytes(40))


def refused_or_parsed(frame: bytes) -> None:
    try:
        decode(frame)
    except WireError:
        pass


@pytest.mark.parametrize("attempt", ["try_damaged_requests", "try_huge_lengths"])
def test_no_request_of_any_version_ends_the_process(attempt: str) -> None:
    child = [sys.executable, __file__, attempt]
    ended = subprocess.run(child, capture_output=True, text=True, timeout=110, check=False)
    assert ended.returncode == 0, f"{ended.stdout.splitlines()[-1:]} {ended.stderr[:500]}"


def be_hostile(attempt: str) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    for api in every(EntityType.request):
        print(api.id, flush=True)
        begin = time.process_time()
        globals()[attempt](*api.values)
        assert time.process_time() - begin < 5, "too slow"


@given(st.binary(max_size=60))
def test_any_bytes_parse_or_are_refused(frame: bytes) -> None:
    try:
        header = messages.read_header(frame)
        if (
            header.api_key in api_key_map
            and header.api_version in (schema_name_map[api_key_map[header.api_key]])
        ):
            messages.decode(frame, header)
    except WireError:
        pass


@given(st.binary(max_size=80), st.sampled_from([p.values for p in every(EntityType.request)]))
def test_any_body_parses_or_is_refused(body: bytes, api: tuple[int, int]) -> None:
    try:
        decode(struct.pack(">hhih", *api, 0, -1) + body)
    except WireError:
        pass


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"", "shorter than its header"),
        (bytes(9), "shorter than its header"),
        (struct.pack(">hhih", 18, 0, 1, -2), "client id length -2"),
        (struct.pack(">hhih", 18, 0, 1, 9) + b"short", "client id length 9"),
        (struct.pack(">hhih", 18, 0, 1, 1) + b"\xff", "not UTF-8"),
    ],
)
def test_a_header_that_is_not_one_is_refused_with_its_reason(frame: bytes, reason: str) -> None:
    with pytest.raises(WireError, match=reason):
        messages.read_header(frame)


def test_tagged_fields_in_a_request_header_are_skipped() -> None:
    entity = filled(load_request_schema(18, 3), Random(0))
    frame = request_frame(18, 3, entity)
    tagged = frame[:12] + b"\x02\x00\x03abc\x81\x01\x00" + frame[13:]
    assert decode(tagged) == entity
    for count in (b"\x03\x00\x03abc", b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\xff\xff"):
        with pytest.raises(WireError):
            decode(frame[:12] + count)


def test_a_header_with_more_tagged_fields_than_a_request_may_have_is_refused_unread() -> None:
    """A hundred megabytes of them took the event loop a minute."""
    many = struct.pack(">hhih", 18, 3, 7, -1) + uvarint(2**31) + bytes(2_000_000)
    steps = 0

    def counted(*_: object) -> None:
        nonlocal steps
        steps += 1

    header = messages.read_header(many)
    sys.setprofile(counted)
    try:
        with pytest.raises(TooManyElements):
            messages.decode(many, header)
    finally:
        sys.setprofile(None)
    assert steps < 1000, "the refusal costs nothing"


if __name__ == "__main__":
    be_hostile(sys.argv[1])
