"""Typed values: what fits, what does not and why; and dead letters, each once."""

from __future__ import annotations

import datetime
import decimal
import io
import json
import math
import threading
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import types as t

from headwater.client.dead_letter_writer import BadRecord, DeadLetterWriter
from headwater.client.errors import BadOption
from headwater.spark.source.output import BadValue
from headwater.spark.source.values.avro import AvroValues
from headwater.spark.source.values.json import JsonValues
from headwater.spark.source.values.schema import value_ddl
from tests.compat.cluster import Cluster
from tests.spark.source.reading import produce, read

KIND = pa.struct(
    [
        ("id", pa.int32()),
        ("name", pa.string()),
        ("total", pa.float64()),
        ("price", pa.decimal128(10, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("tags", pa.list_(pa.string())),
        ("place", pa.struct([("x", pa.int64()), ("days", pa.list_(pa.date32()))])),
    ]
)


def convert(kind: pa.StructType, *values: bytes | None) -> tuple[list[Any], dict[int, str]]:
    found, bad = JsonValues(kind).convert(pa.array(values, pa.binary()))
    found.validate(full=True)
    assert found.type == kind
    return found.to_pylist(), dict(bad)


def test_what_may_not_be_null_inside_may_be_missing_with_all_that_is_around_it() -> None:
    inner = pa.struct([pa.field("b", pa.int32(), nullable=False)])
    many = pa.list_(pa.field("element", pa.int32(), nullable=False))
    texts = (b'{"a":{"b":1}}', b'{"a":null}', b"{}", b'{"a":{}}', b'{"l":[1]}', b'{"l":[null]}')
    found, bad = convert(pa.struct([("a", inner), ("l", many)]), *texts)
    assert [(each["a"], each["l"]) for each in found] == [
        *(({"b": 1}, None), (None, None), (None, None), (None, [1])),
    ]
    assert bad == {3: "field a.b is missing", 5: "field l[] is missing"}


def test_every_type_is_decoded() -> None:
    value = {
        "id": 7,
        "name": "Müller",
        "total": 1.5,
        "price": "12.30",
        "at": "2026-11-15T12:00:00.123456+02:00",
        "day": "2026-11-15",
        "tags": ["a", None],
        "place": {"x": 1 << 40, "days": ["2026-01-01"]},
        "unknown": {"deep": [1]},
    }
    found, bad = convert(KIND, json.dumps(value).encode(), None, b"{}")
    assert not bad
    assert found == [
        {
            "id": 7,
            "name": "Müller",
            "total": 1.5,
            "price": decimal.Decimal("12.30"),
            "at": datetime.datetime(2026, 11, 15, 10, 0, 0, 123456, tzinfo=datetime.UTC),
            "day": datetime.date(2026, 11, 15),
            "tags": ["a", None],
            "place": {"x": 1 << 40, "days": [datetime.date(2026, 1, 1)]},
        },
        None,
        dict.fromkeys(KIND.names),
    ]


BAD = [
    b'{"id": "x"}',
    b'{"id": 1.5}',
    b'{"id": 3000000000}',
    b'{"id": }',
    b'{"id": 1',
    b'{"id": 1}}',
    b"[1]",
    b"",
    b'{"name": "\xff"}',
    b'{"id": 1, "id": 2}',
    b'{"price": 1.005}',
    b'{"day": "tomorrow"}',
    b'{"tags": 5}',
    # What Arrow says of these quotes them.
    b'{"at": "tomorrow in row 99"}',
    b'{"day": "tomorrow in row 99"}',
    b'{"price": "much in row %s"}' % (b"9" * 5000),
    b'{"at": "today in row 0"}',
    # Arrow looks for such powers of ten behind the end of its table, and ends the process.
    b'{"price": -1e-999999999}',
    b'{"price": "1.5E-99999999"}',
    b'{"price": "1\\u0065-99999999"}',
    b'{"price": 0.%s1}' % (b"0" * 500_000),
]


@pytest.mark.parametrize("bad", BAD)
def test_a_value_that_does_not_fit_is_named_and_its_neighbours_are_whole(bad: bytes) -> None:
    good = [b'{"id": %d}' % n for n in range(5)]
    found, reasons = convert(KIND, *good[:2], bad, None, *good[2:], bad)
    assert [each and each["id"] for each in found] == [0, 1, None, 2, 3, 4]
    assert list(reasons) == [2, 7]
    assert all(reasons.values())


@settings(max_examples=60)
@given(st.lists(st.sampled_from([b'{"id": 1}', None, *BAD]), max_size=30))
def test_rows_and_bad_rows_make_up_the_whole(values: list[bytes | None]) -> None:
    found, bad = convert(KIND, *values)
    assert len(found) + len(bad) == len(values)
    left = [value for row, value in enumerate(values) if row not in bad]
    assert [each is None for each in found] == [value is None for value in left]
    assert all(values[row] in BAD for row in bad)


def test_a_required_field_must_be_there() -> None:
    kind = pa.struct([pa.field("id", pa.int32(), nullable=False), ("name", pa.string())])
    found, bad = convert(kind, b'{"id": 1}', b'{"name": "x"}', b'{"id": null}', b'{"id": 2}')
    assert [each["id"] for each in found] == [1, 2]
    assert bad == {1: "field id is missing", 2: "field id is missing"}


def test_maps_are_read_value_by_value() -> None:
    kind = pa.struct([("counts", pa.map_(pa.string(), pa.int32())), ("day", pa.date32())])
    found, bad = convert(
        kind, b'{"counts": {"a": 1}, "day": "2026-01-02"}', b'{"counts": {"a": "x"}}', b"nonsense"
    )
    assert found == [{"counts": [("a", 1)], "day": datetime.date(2026, 1, 2)}]
    assert "counts.a is 'x'" in bad[1]
    assert "no JSON" in bad[2]


MAP = pa.map_(pa.string(), pa.string())
"""Beside it, a row is read value by value."""
CHANGED = [
    (pa.float32(), "1e39", "-3.4028236e38", "1" + "0" * 39),
    (pa.float64(), "1e309", "1" + "0" * 400),
    (pa.list_(pa.struct([("x", pa.float32())])), '[{"x": 1}, null, {"x": 1e39}]'),
    (pa.date32(), '"2026-11-15T23:30:00-05:00"', '"2026-11-15T10:00:00"', '"20261115"'),
    (pa.list_(pa.date32()), '["2026-11-15", "2026-11-15T00:00:00Z"]'),
    (pa.timestamp("us"), '"2026-11-15T10:00:00Z"', '"2026-11-15T10:00:00+02:00"'),
    (pa.timestamp("us"), '"2026-11-15T10:00:00.1234567"', '"20261115T101112"'),
    (pa.timestamp("us", "UTC"), '"2026-11-15T10:00:00.1234567Z"', '"2026-W01-1"'),
    (pa.string(), r'"\ud800"', r'"x\udc00"', '"a", "f": "b"'),
    (MAP, r'{"\ud800": "x"}', '{"a": "1", "a": "2"}'),
]


@pytest.mark.parametrize("beside", [(), (("m", MAP),)], ids=["alone", "beside a map"])
@pytest.mark.parametrize(("kind", "texts"), [(kind, texts) for kind, *texts in CHANGED])
def test_what_would_be_changed_does_not_fit(
    kind: pa.DataType, texts: list[str], beside: tuple[tuple[str, pa.DataType], ...]
) -> None:
    whole = pa.struct([("f", kind), *beside])
    good = b'{"f": null}'
    values = [each for text in texts for each in (good, f'{{"f": {text}}}'.encode())]
    found, bad = convert(whole, *values)
    assert found == [dict.fromkeys(whole.names)] * len(texts)
    assert list(bad) == list(range(1, len(values), 2))


@pytest.mark.parametrize("beside", [(), (("m", MAP),)], ids=["alone", "beside a map"])
def test_dates_local_times_and_infinities_are_themselves(
    beside: tuple[tuple[str, pa.DataType], ...],
) -> None:
    kind = pa.struct(
        [("f", pa.float32()), ("day", pa.list_(pa.date32())), ("at", pa.timestamp("us")), *beside]
    )
    value = b'{"f": "-Infinity", "day": ["9999-12-31"], "at": "2026-03-29T02:30:00.000001"}'
    found, bad = convert(kind, b'{"f": 3.4028235e38, "at": "0001-01-01"}', value)
    assert not bad
    assert [tuple(each.values())[:3] for each in found] == [
        (3.4028234663852886e38, None, datetime.datetime(1, 1, 1)),
        (-math.inf, [datetime.date(9999, 12, 31)], datetime.datetime(2026, 3, 29, 2, 30, 0, 1)),
    ]


def test_nothing_but_bad_values_leaves_nothing() -> None:
    found, bad = convert(KIND, *BAD)
    assert not found and len(bad) == len(BAD)


AVRO = {
    "type": "record",
    "name": "order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
    ],
}
AVRO_KIND = pa.struct(
    [
        ("id", pa.int64()),
        ("note", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("counts", pa.map_(pa.string(), pa.int32())),
    ]
)


@pytest.mark.parametrize("framed", [False, True])
def test_avro_values_are_decoded(framed: bool) -> None:
    at = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    row = {"id": 5, "note": None, "at": at, "counts": {"a": 1}}
    out = io.BytesIO()
    fastavro.schemaless_writer(out, AVRO, row)
    prefix = b"\0\0\0\0\7" if framed else b""
    values = AvroValues(json.dumps(AVRO), AVRO_KIND, framed)
    good = prefix + out.getvalue()
    column = pa.array([good, None, good[:-1], good + b"x", b"\1"], pa.binary())
    found, bad = values.convert(column)
    assert found.to_pylist() == [{**row, "counts": [("a", 1)]}, None]
    assert [each.row for each in bad] == [2, 3, 4]
    assert "1 bytes follow" in bad[1].reason


def test_an_avro_name_stands_for_what_was_defined_before_it() -> None:
    """As in Debezium's envelope, whose `after` names the record that `before` defines."""
    row = {"type": "record", "name": "Value", "fields": [{"name": "id", "type": "long"}]}
    fields = [
        {"name": "before", "type": ["null", row]},
        {"name": "after", "type": ["null", "shop.orders.Value"]},
        {"name": "next", "type": {"type": "array", "items": "Value"}},
    ]
    envelope = {"type": "record", "name": "Envelope", "namespace": "shop.orders", "fields": fields}
    value = "STRUCT<`id`: BIGINT>"
    found = value_ddl(json.dumps(envelope), "avro")
    assert found == f"STRUCT<`before`: {value}, `after`: {value}, `next`: ARRAY<{value}>>"
    for name, sentence in (("Envelope", "holds itself"), ("Other", "without saying what it is")):
        fields[2]["type"] = name
        with pytest.raises(BadOption, match=sentence):
            value_ddl(json.dumps(envelope), "avro")


# ---- dead letters ----------------------------------------------------------------------------------

ORDER = t.StructType([t.StructField("id", t.LongType())])


def letters(bootstrap: str, topic: str) -> list[tuple[bytes | None, bytes | None, dict[str, str]]]:
    """What a consumer of committed data finds there."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "letters",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    found = []
    try:
        known = consumer.list_topics(topic, timeout=60).topics[topic].partitions
        consumer.assign([TopicPartition(topic, each, 0) for each in known])
        ended: set[int | None] = set()
        while len(ended) < len(known):
            message = consumer.poll(60)
            assert message is not None
            if message.error():
                ended.add(message.partition())
                continue
            said = {k: (v or b"").decode() for k, v in message.headers() or []}
            found.append((message.key(), message.value(), said))
    finally:
        consumer.close()
    return found


def test_bad_values_become_dead_letters_with_reason_and_position(
    cluster: Cluster, topic: str
) -> None:
    cluster.create_topic(topic, 2)
    records = [
        {"value": b'{"id": 1}', "key": b"a", "partition": 1},
        {"value": b'{"id": "?"}', "key": b"b", "partition": 1, "headers": [("h", b"own")]},
        {"value": b'{"id": 3}', "key": b"c", "partition": 1},
    ]
    produce(cluster.bootstrap, topic, records)
    given = {"subscribe": topic, "schema": "id BIGINT", "columns": "value"}
    for _ in range(2):  # the second time they are there already
        found = read(cluster.bootstrap, ORDER, **given)
        assert [row["value"]["id"] for row in found.to_pylist()] == [1, 3]
    ((key, value, said),) = letters(cluster.bootstrap, f"{topic}.dead-letters")
    assert (key, value) == (b"b", b'{"id": "?"}')
    assert said == {
        "h": "own",
        "__dlq.errors.topic": topic,
        "__dlq.errors.partition": "1",
        "__dlq.errors.offset": "1",
        "__dlq.errors.group": "headwater-spark",
        "__dlq.errors.message": "Column(/id) changed from number to string",
    }


def test_fail_fast_ends_the_query_with_position_and_reason(log: Cluster, topic: str) -> None:
    log.create_topic(topic)
    produce(log.bootstrap, topic, [b'{"id": 1}', b"nonsense"])
    with pytest.raises(BadValue, match=f"offset 1 of {topic}-0 .* no JSON object"):
        read(log.bootstrap, ORDER, subscribe=topic, schema="id BIGINT", mode="FAILFAST")


def test_another_topic_may_be_chosen_for_dead_letters(log: Cluster, topic: str) -> None:
    log.create_topic(topic)
    produce(log.bootstrap, topic, [b"nonsense"])
    given = {"subscribe": topic, "schema": "id BIGINT"}
    assert read(log.bootstrap, ORDER, deadLetterTopic=f"{topic}-x", **given).num_rows == 0
    assert len(letters(log.bootstrap, f"{topic}-x")) == 1
    with pytest.raises(Exception, match=r"to .* itself"):
        read(log.bootstrap, ORDER, deadLetterTopic=topic, **given)


def test_a_part_of_the_letters_is_completed_not_repeated(log: Cluster, topic: str) -> None:
    """As after a crash between two pieces of a task, or with other ranges in a second query."""
    log.create_topic(topic)
    settings = {"bootstrap.servers": log.bootstrap}
    made = [BadRecord(n, 1_700_000_000_000 - n, None, b"%d" % n, [], "why") for n in range(50)]
    DeadLetterWriter(settings, topic, 0, None).put(made[10:20])
    DeadLetterWriter(settings, topic, 0, None).put(made[5:30])
    DeadLetterWriter(settings, topic, 0, None).put(made)
    found = [int(value or b"") for _, value, _ in letters(log.bootstrap, f"{topic}.dead-letters")]
    assert sorted(found) == list(range(50))


def test_tasks_that_write_at_once_write_each_letter_once(log: Cluster, topic: str) -> None:
    """A task and its speculative twin; the two halves of a split partition."""
    log.create_topic(topic)
    settings = {"bootstrap.servers": log.bootstrap}
    made = [BadRecord(n, 1_700_000_000_000, None, b"%d" % n, [], "why") for n in range(40)]
    failures: list[BaseException] = []

    def write(mine: list[BadRecord]) -> None:
        try:
            DeadLetterWriter(
                settings | {"client.id": str(threading.get_ident())}, topic, 0, None
            ).put(mine)
        except BaseException as error:
            failures.append(error)

    threads = [
        threading.Thread(target=write, args=[mine]) for mine in (made[:20], made[:20], made[20:])
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert not failures
    found = [int(value or b"") for _, value, _ in letters(log.bootstrap, f"{topic}.dead-letters")]
    assert sorted(found) == list(range(40))


def test_letters_without_a_usable_timestamp_are_found_again(log: Cluster, topic: str) -> None:
    log.create_topic(topic)
    log.create_topic(f"{topic}.dead-letters", message_timestamp_type="LogAppendTime")
    settings = {"bootstrap.servers": log.bootstrap}
    made = [
        BadRecord(0, -1, None, b"a", [], "why"),
        BadRecord(1, 99_999_999_999_999, None, b"b", [], "why"),
    ]
    for _ in range(2):
        for each in made:
            DeadLetterWriter(settings, topic, 0, None).put([each])
    assert len(letters(log.bootstrap, f"{topic}.dead-letters")) == 2
