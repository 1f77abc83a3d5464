"""Which records are meant, and how bytes are shown. Without a broker."""

from __future__ import annotations

import tracemalloc

import pytest

from headwater.browse.decoder import Decoder, Shown
from headwater.browse.filters import Filter
from headwater.client.errors import BadRequest
from headwater.client.records import Record
from headwater.schemas.values.codecs import Codec
from headwater.schemas.values.json import JsonCodec

DECODER = Decoder()


def record(value: bytes | None, key: bytes | None = None, headers=()) -> Record:
    return Record("t", 0, 0, 0, key, value, headers)


def keeps(wanted: Filter, each: Record) -> bool:
    keep = wanted.compiled(DECODER)
    return keep is None or keep(each)


@pytest.mark.parametrize(
    ("said", "key", "meant"),
    [
        ("17", b"17", True),
        ("17", b'{"id":17}', True),
        ("17", b'{"schema":{},"payload":{"id":17}}', True),
        ("a", b'{"id":"a"}', True),
        ('{"id": 17}', b'{"id":17}', True),
        ('{"id": 17}', b'{"id": 17}', True),
        ("17", b"170", False),
        ("17", b'{"id":17,"at":1}', False),
        ("17", None, False),
        (b"\xff", b"\xff", True),
        ("", b"", True),
    ],
)
def test_a_key_is_meant_as_it_is_written_or_as_the_one_field_of_its_json(said, key, meant):
    assert keeps(Filter(key=said), record(b"v", key)) is meant


@pytest.mark.parametrize(
    ("condition", "meant"),
    [
        ("total=12", True),
        ("total=12.0", True),
        ("total = 12", True),
        ("total!=12", False),
        ("total=13", False),
        ("name=ann", True),
        ('name="ann"', True),
        ("items.0.sku=x", True),
        ("items.1.sku=x", False),
        ("a.b=1", True),
        ("paid=true", True),
        ("paid=1", False),
        ("gone=null", True),
        ("nowhere=null", False),
        ("nowhere!=1", True),
        ("url=a=b", True),
    ],
)
def test_a_field_of_the_value_is_compared_as_json(condition, meant):
    value = (
        b'{"total": 12, "name": "ann", "items": [{"sku": "x"}], "a.b": 1, "paid": true, '
        b'"gone": null, "url": "a=b"}'
    )
    assert keeps(Filter(where=(condition,)), record(value)) is meant


def test_grep_looks_at_key_value_and_headers():
    each = record(b"Some value", b"the-key", (("source", b"shop"), ("trace", None)))
    for words in ("value", "the-k", "shop", "trace", "/v.lue$/", "/^the/"):
        assert keeps(Filter(grep=words), each)
    assert not keeps(Filter(grep="some"), each)
    assert keeps(Filter(grep="some", ignore_case=True), each)
    assert not keeps(Filter(grep="shop", parts=("key", "value")), each)
    assert not keeps(Filter(grep="v.lue"), each)


def test_everything_that_is_given_must_hold():
    both = Filter(key="1", where=("a=1",), grep="b")
    assert keeps(both, record(b'{"a": 1, "b": 2}', b"1"))
    assert not keeps(both, record(b'{"a": 1, "b": 2}', b"2"))
    assert not keeps(both, record(b'{"a": 2, "b": 2}', b"1"))
    assert not keeps(both, record(None, b"1"))
    assert Filter().compiled(DECODER) is None


@pytest.mark.parametrize("bad", [Filter(grep="/(/"), Filter(where=("total",))])
def test_what_is_no_condition_is_said(bad):
    with pytest.raises(BadRequest):
        bad.compiled(DECODER)


@pytest.mark.parametrize(
    ("data", "kind", "text", "value"),
    [
        (None, "null", "null", None),
        (b"", "text", "", ""),
        (b"plain", "text", "plain", "plain"),
        (b"17", "text", "17", 17),
        (b'{"a": 1}', "json", '{"a": 1}', {"a": 1}),
        (b'{"a":', "text", '{"a":', '{"a":'),
        (b"[" * 100_000, "text", "[" * 100_000, "[" * 100_000),
        ("grün".encode(), "text", "grün", "grün"),
        (b"\xff\xfe", "hex", "fffe", "fffe"),
        (b"\0\0\0\0\x07abc", "hex", "0000000007616263", "0000000007616263"),
        (b"\0", "text", "\0", "\0"),
    ],
)
def test_any_bytes_are_shown(data, kind, text, value):
    shown = DECODER.decode(data, "t")
    assert (shown.kind, shown.text, shown.value) == (kind, text, value)
    assert shown.pretty()[:1] == text[:1] or kind == "json"


def test_no_expression_keeps_whoever_looks_busy():
    """A changefeed's client or a visitor of the console sends it; others take years for it."""
    assert not keeps(Filter(grep="/(a+)+$/"), record(b"a" * 5000 + b"!"))
    assert keeps(Filter(grep="/^Ä+$/", ignore_case=True), record("ää".encode()))


def test_a_path_through_many_names_is_refused_before_any_record_is_looked_at():
    """At every level each way to read its dots is tried, in the loop that serves all who follow a topic."""
    deepest = Filter(where=("." * 31 + "=1",)).compiled(DECODER)
    assert deepest is not None and not deepest(record(b'{"a": 1}'))
    with pytest.raises(BadRequest, match="goes through 33 names, and 32 are the most"):
        Filter(where=("." * 32 + "=1",)).compiled(DECODER)


@pytest.mark.parametrize(
    "condition", ["items.²=1", "items.١=1", f"items.{'1' * 900}=1", f"items={'[' * 990}"]
)
def test_what_only_looks_like_a_number_or_like_json_is_text(condition: str) -> None:
    """One client's condition is looked at in the loop that serves all who follow a topic."""
    assert not keeps(Filter(where=(condition,)), record(b'{"items": [1, 2]}'))


@pytest.mark.parametrize("head", [b"", b"\0\0\0\0\x07"])
def test_a_condition_makes_not_all_values_of_a_record(head: bytes):
    """Four megabytes of JSON became 400 in memory for everybody who asked for `?where=`."""
    many = b'{"id":7,"x":[' + b"[]," * 1_300_000 + b"[]]}"
    tracemalloc.start()
    keep = Filter(where=("id=7",)).compiled(_ByJson())
    assert keep is not None and not keep(record(head + many))
    assert keep(record(head + b'{"id":7,"x":[[],"[],[],[]"]}'))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 10 * len(many)


def test_a_value_is_taken_apart_once_for_all_conditions():
    """Twenty of them took twenty times as long."""
    counting = _ByJson()
    keep = Filter(where=tuple(f"n!={number}" for number in range(20))).compiled(counting)
    assert keep is not None and keep(record(b'{"n":20}')) and not keep(record(b'{"n":7}'))
    assert counting.count == 2


class _ByJson(Decoder):
    """Every id is that of a JSON Schema."""

    count = 0

    def decode(self, data: bytes | None, topic: str = "") -> Shown:
        self.count += 1
        return super().decode(data, topic)

    def _codec(self, number: int, topic: str) -> Codec | None:
        return JsonCodec("true", ())
