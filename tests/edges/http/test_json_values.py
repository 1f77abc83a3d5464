"""What a body becomes in memory has a bound, however well it was packed."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.exceptions import HTTPException

from headwater import json_size
from headwater.browse.decoder import Decoder
from headwater.client.errors import BadRequest
from headwater.client.records import Record
from headwater.edges import json_values
from headwater.edges.drafts import Ask, drafts_of
from headwater.edges.errors import Invalid
from headwater.edges.feeds.bodies import of_record, of_row
from headwater.edges.hooks.signatures import text_at
from headwater.edges.rest import formats
from headwater.edges.rest.records_out import _field as member
from headwater.edges.schemas import Schema, Schemas

BYTES = 4_000_000
EMPTY = b"[" + b"[]," * (BYTES // 3) + b"[]]"
HEAD = b'"specversion":"1.0","id":"1","source":"s","type":"t"'
NDJSON, JSON = "application/x-ndjson", "application/json"
EVENT, EVENTS = "application/cloudevents+json", "application/cloudevents-batch+json"
LINE = b'{"id":7,"x":[' + b"[]," * 300 + b"[]]}\n"
LINES = LINE * (BYTES // len(LINE))
BATCH = b"[" + b",".join([b"{" + HEAD + b',"data":' + LINE.strip() + b"}"] * 4_000) + b"]"
SCHEMA = Schema({"type": "object"})
Call = Callable[[], Any]


def peak(work: Call) -> tuple[int, Any]:
    """How many bytes it took at most beside what was there, and what came of it."""
    tracemalloc.start()
    try:
        found = work()
    except (HTTPException, BadRequest, Invalid) as error:
        found = error
    finally:
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return most, found


def ask(kind: str, key_field: str | None = None, **headers: str) -> Ask:
    return Ask({"content-type": kind, **headers}, None, key_field)


@pytest.mark.parametrize(
    ("told", "body", "schema", "refused"),
    [
        (ask(JSON, "id"), b'{"id":7,"x":' + EMPTY + b"}", None, None),
        (ask(JSON, "x.id"), b'{"x":{"y":' + EMPTY + b',"id":7}}', None, None),
        (ask(JSON, 'odd"name'), b'{"id":7,"x":' + EMPTY + b"}", None, "1000000 values"),
        (ask(JSON), b'{"id":7,"x":' + EMPTY + b"}", SCHEMA, "1000000 values"),
        (ask(NDJSON, "id"), LINES, None, None),
        (ask(NDJSON, "id"), LINES, SCHEMA, None),
        (ask(EVENT), b"{" + HEAD + b',"data":' + EMPTY + b"}", None, "1000000 values"),
        (ask(EVENTS), b"[{" + HEAD + b',"data":' + EMPTY + b"}]", None, "1000000 values"),
        (ask(EVENTS), b"[" + b"0," * (BYTES // 2) + b"0]", None, "no array of CloudEvents"),
        (ask(EVENTS), BATCH, SCHEMA, None),
        (ask(JSON, ce_id="1"), EMPTY, SCHEMA, "1000000 values"),
    ],
)
def test_a_body_takes_a_few_times_its_bytes(
    told: Ask, body: bytes, schema: Schema | None, refused: str | None
):
    most, found = peak(lambda: drafts_of(told, body, schema))
    assert most < 6 * len(body), f"{most / len(body):.1f} times"
    if refused is None:
        assert len(found) >= 1 and not found.bad
    else:
        assert refused in str(found)


def test_a_body_that_was_packed_well_is_no_exception():
    """16 kB of it: the bytes that came are no bound."""
    body = gzip.decompress(gzip.compress(b'{"id":1,"x":' + EMPTY + b"}"))
    most, found = peak(lambda: drafts_of(ask(JSON, "id"), body, None))
    assert found.drafts[0].key == b"1" and most < 2 * len(body)


@pytest.mark.parametrize("inner", [EMPTY, b"[" + b"0.1," * (BYTES // 4) + b"0]"])
def test_records_of_the_rest_interface_are_bounded_one_by_one(inner: bytes):
    small = b'{"value":{"type":"JSON","data":' + LINE.strip() + b"}}"
    body = b" ".join([small] * 1_800)
    most, found = peak(lambda: list(formats.read(body, 1)))
    assert most < 6 * len(body) and len(found) == 1_800
    assert all(isinstance(each, formats.Produced) for each in found)
    large = small + b'{"value":{"type":"JSON","data":' + inner + b"}}"
    most, found = peak(lambda: list(formats.read(large, 1)))
    assert most < 6 * len(large)
    assert isinstance(found[0], formats.Produced) and "1000000 values" in found[1].reason


def test_what_hooks_look_for_is_bounded(tmp_path: Any):
    (tmp_path / "s.json").write_text('{"type": "object"}')
    schemas = Schemas({"t": {"schema": "s.json"}}, tmp_path)
    body = b'{"id":"7","x":' + EMPTY + b"}"
    most, found = peak(lambda: (text_at(body, "id"), schemas.complaint("t", body)))
    assert most < 6 * len(body)
    assert found == ("7", "it has more than 1000000 values")
    assert text_at(body, "x") is text_at(body, "y") is text_at(body[:-1], "id") is None


def test_commas_within_texts_are_no_values():
    body = json.dumps({"id": 7, "text": ',:[{"\\' * 400_000}).encode()
    assert json_size.many(body) is None
    assert drafts_of(ask(JSON, "id"), body, SCHEMA).drafts[0].key == b"7"


def test_to_count_values_among_many_texts_takes_little():
    body = b'{"headers":[' + b'{"name":"a"},' * 300_000 + b"0]}"
    most, found = peak(lambda: json_size.many(body))
    assert found is None and most < len(body)
    _, found = peak(lambda: json_size.many(body * 2))
    assert found == "it has more than 1000000 values"


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(VALUES, st.lists(st.text(), min_size=1, max_size=3))
def test_a_field_is_what_it_is_among_all_others(value: Any, names: list[str]):
    text = json.dumps(value).encode("utf-8", "surrogatepass")
    meant = value
    for name in names:
        meant = meant.get(name) if isinstance(meant, dict) else None
    is_scalar = isinstance(meant, str | int | float) and not isinstance(meant, bool)
    assert json_values.at(text, names) == (meant if is_scalar else None)


@given(st.dictionaries(st.text(), VALUES, min_size=1), st.data())
def test_a_field_that_is_there_is_found(value: dict[str, Any], data: st.DataObject):
    name = data.draw(st.sampled_from(sorted(value)))
    found = json_values.at(json.dumps(value).encode(), [name])
    meant = value[name]
    is_scalar = isinstance(meant, str | int | float) and not isinstance(meant, bool)
    assert found == (meant if is_scalar else None)


def test_a_value_with_too_many_others_in_it_is_refused_before_its_end_is_looked_for():
    opened = "[" + "[]," * json_size.VALUES_MAX
    with pytest.raises(ValueError, match="1000000 values in one record"):
        json_values.end_of(opened, 0)


@pytest.mark.parametrize("value", [EMPTY, EMPTY[:-1]])
def test_a_record_is_shown_without_its_values_being_made(value: bytes):
    """Posted as sixteen packed kilobytes, each reader of it took 400 MB."""
    record = Record("t", 0, 0, 0, None, value, [])
    for show in (of_record, of_row, lambda each, _: member("value", each.value, "json")):
        most, found = peak(lambda show=show: show(record, Decoder()))
        assert most < 15 * BYTES  # eight times a text for its escapes is what `orjson` sets aside
        assert found


def test_json_behind_blanks_is_json():
    """Posted as JSON, it came back as a text."""
    for value in (b' {"b": 1} ', b"\r\n\t17\n", b" null"):
        said = json.loads(of_record(Record("t", 0, 0, 0, None, value, ()), Decoder()))
        assert said["value"] == json.loads(value)
    assert Decoder().decode(b"\n[1]").kind == "json"
    said = json.loads(of_record(Record("t", 0, 0, 0, b" [1]", b" ", ()), Decoder()))
    assert (said["key"], said["value"]) == ([1], " ")
