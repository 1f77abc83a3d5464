"""State is the integral of the stream: one key's changes, folded up to a moment."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from hypothesis import given
from hypothesis import strategies as st

import headwater.testing
from headwater.cli import main
from headwater.client.cluster import Cluster
from headwater.client.partitioner import by_crc32, by_murmur2, forms_of, murmur2
from headwater.record.records import Record
from headwater.views.folding.state import AsOf, NoSuchState, fold, parse_as_of, state_of


def rows(*values: Any) -> list[tuple[int, Record]]:
    """Records of one key, each value as JSON; None is a tombstone."""
    said = [None if value is None else json.dumps(value).encode() for value in values]
    return [(0, Record(offset, 1000 + offset, b"k", value)) for offset, value in enumerate(said)]


def envelope(op: str, before: Any, after: Any) -> dict[str, Any]:
    return {"before": before, "after": after, "op": op, "ts_ms": 1}


def test_the_last_plain_row_stands():
    row, changes = fold(rows({"a": 1}, {"a": 2}, {"a": 2, "b": 3}))
    assert row == {"a": 2, "b": 3}
    assert [change.changed for change in changes] == [
        {"a": [None, 1]},
        {"a": [1, 2]},
        {"b": [None, 3]},
    ]


def test_a_tombstone_leaves_nothing_and_a_row_may_come_back():
    row, changes = fold(rows({"a": 1}, None))
    assert row is None
    assert [change.op for change in changes] == ["put", "tombstone"]
    assert fold(rows({"a": 1}, None, {"a": 5}))[0] == {"a": 5}


def test_envelopes_with_and_without_a_schema_are_understood():
    one, two = {"id": 1, "n": 1}, {"id": 1, "n": 2}
    plain = rows(envelope("r", None, one), envelope("u", one, two))
    assert fold(plain)[0] == two
    wrapped = rows({"schema": {}, "payload": envelope("c", None, one)})
    assert fold(wrapped)[0] == one
    assert fold([*plain, *rows(envelope("d", two, None), None)])[0] is None


def test_a_column_that_was_not_sent_keeps_what_it_was():
    long = {"id": 1, "text": "long", "n": 1}
    short = {"id": 1, "text": "__debezium_unavailable_value", "n": 2}
    assert fold(rows(envelope("c", None, long), envelope("u", None, short)))[0] == {**long, "n": 2}
    # Also where the history begins later, if the record says how the row was.
    assert fold(rows(envelope("u", long, short)))[0] == {**long, "n": 2}


def test_a_truncated_table_has_no_row_and_a_message_is_none():
    one = {"id": 1}
    row, changes = fold(
        rows(envelope("c", None, one), envelope("m", None, None), envelope("t", None, None))
    )
    assert row is None
    assert [change.op for change in changes] == ["c", "t"]


def test_values_that_are_no_json_are_shown_as_they_are():
    records = [(0, Record(0, 0, b"k", b"plain words")), (0, Record(1, 0, b"k", b"\xff\x00"))]
    assert [change.row for change in fold(records)[1]] == ["plain words", "0xff00"]


@given(st.lists(st.one_of(st.none(), st.dictionaries(st.sampled_from("abc"), st.integers(0, 3)))))
def test_a_fold_of_a_prefix_is_the_state_after_its_last_change(values: list[Any]):
    _, changes = fold(rows(*values))
    for length, change in enumerate(changes, 1):
        assert fold(rows(*values[:length]))[0] == change.row


@given(st.binary(max_size=40))
def test_murmur2_is_that_of_the_sink(key: bytes):
    import numpy as np

    from headwater.spark.sink import partitioner

    found = partitioner.murmur2(np.frombuffer(key, np.uint8), 0, len(key))
    assert murmur2(key) == int(found) & 0xFFFFFFFF


def test_a_key_may_be_said_by_its_one_value():
    assert forms_of("17", b'{"id":4}') == [b"17", b'{"id":17}']
    assert forms_of("17", b'{"id":"4"}') == [b"17", b'{"id":"17"}']
    assert forms_of("x", b'{"id":4}') == [b"x"]
    assert forms_of("17", b"4") == [b"17"]
    assert forms_of('{"b": 2, "a": 1}', b'{"a":0,"b":0}') == [
        b'{"b": 2, "a": 1}',
        b'{"b":2,"a":1}',
        b'{"a":1,"b":2}',
    ]
    assert forms_of("7", b'{"schema":{"x":1},"payload":{"id":4}}')[1:] == [
        b'{"schema":{"x":1},"payload":{"id":7}}'
    ]


def test_a_moment_is_an_offset_or_a_time():
    assert parse_as_of(None) == AsOf()
    assert parse_as_of("17") == AsOf(offset=17)
    assert parse_as_of("2:17") == AsOf(offset=17, partition=2)
    assert parse_as_of("1970-01-01T00:00:01") == AsOf(time_ms=1000)
    assert parse_as_of("1970-01-01T01:00:01+01:00") == AsOf(time_ms=1000)
    with pytest.raises(NoSuchState, match="neither an offset nor a time"):
        parse_as_of("yesterday")


# ---- against a log -------------------------------------------------------------------------------

PARTITIONS = 6
MOVED = "somewhere"  # a key that lies where no partitioner puts it


def elsewhere(key: bytes) -> int:
    taken = {by_murmur2(key, PARTITIONS), by_crc32(key, PARTITIONS)}
    return next(number for number in range(PARTITIONS) if number not in taken)


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with headwater.testing.broker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        topics = [NewTopic("orders", PARTITIONS, 1), NewTopic("aborted", 1, 1)]
        for made in admin.create_topics(topics).values():
            made.result(60)
        produce(broker.bootstrap)
        yield broker.bootstrap


def produce(bootstrap: str) -> None:
    settings = {"bootstrap.servers": bootstrap, "log_level": 0, "compression.type": "lz4"}
    java = Producer({**settings, "partitioner": "murmur2_random"})
    for n in range(3000):
        after = {"id": n % 100, "n": n}
        java.produce(
            "orders",
            json.dumps(envelope("u", None, after)),
            f'{{"id":{n % 100}}}',
            timestamp=1000 + n,
        )
    assert java.flush(60) == 0
    own = Producer(settings)  # librdkafka's partitioner
    own.produce("orders", '{"a": 1}', "plain-key")
    own.produce("orders", '{"a": 2}', MOVED, partition=elsewhere(MOVED.encode()))
    assert own.flush(60) == 0
    sure = Producer({**settings, "transactional.id": "x", "metadata.recovery.strategy": "none"})
    sure.init_transactions(10)
    for value, committed in (("1", True), ("2", False), ("3", True), ("4", False)):
        sure.begin_transaction()
        sure.produce("aborted", value, "k")
        sure.commit_transaction(10) if committed else sure.abort_transaction(10)


@pytest.fixture
def cluster(bootstrap: str) -> Iterator[Cluster]:
    made = Cluster({"bootstrap.servers": bootstrap})
    yield made
    made.close()


def test_a_key_is_found_in_its_partition_alone(cluster: Cluster):
    found = state_of(cluster, "orders", b'{"id":42}', AsOf())
    assert found.row == {"id": 42, "n": 2942}
    assert len(found.changes) == 30
    assert list(found.read) == [by_murmur2(b'{"id":42}', PARTITIONS)]
    assert found.note is None


def test_a_moment_in_time_ends_before_the_first_later_record(cluster: Cluster):
    found = state_of(cluster, "orders", "42", AsOf(time_ms=1000 + 1042))
    assert found.row == {"id": 42, "n": 1042}
    assert state_of(cluster, "orders", "42", AsOf(time_ms=1000 + 1041)).row["n"] == 942


def test_an_offset_is_the_last_that_counts(cluster: Cluster):
    all_of_it = state_of(cluster, "orders", "42", AsOf())
    third = all_of_it.changes[2]
    found = state_of(cluster, "orders", "42", AsOf(offset=third.offset, partition=third.partition))
    assert list(found.changes) == list(all_of_it.changes[:3])
    first = all_of_it.changes[0]
    before = AsOf(offset=first.offset - 1, partition=first.partition)
    with pytest.raises(NoSuchState, match="no record with the key '42' up to then"):
        state_of(cluster, "orders", "42", before)


def test_a_key_in_another_partition_is_found_and_said_to_be_there(cluster: Cluster):
    plain = state_of(cluster, "orders", "plain-key", AsOf())
    assert plain.row == {"a": 1}
    if by_crc32(b"plain-key", PARTITIONS) != by_murmur2(b"plain-key", PARTITIONS):
        assert plain.note is not None and "librdkafka's partitioner" in plain.note
    moved = state_of(cluster, "orders", MOVED, AsOf())
    assert moved.row == {"a": 2}
    assert len(moved.read) == PARTITIONS
    assert moved.note is not None and "after reading all partitions" in moved.note


def test_what_was_taken_back_is_no_change(cluster: Cluster):
    found = state_of(cluster, "aborted", "k", AsOf())
    assert [change.row for change in found.changes] == [1, 3]


def test_the_command_prints_the_row_and_its_history(
    bootstrap: str, capsys: pytest.CaptureFixture[str]
):
    assert main(["state", "orders", "42", "--limit", "2", "--bootstrap", bootstrap]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == '{"id": 42, "n": 2942}'
    assert said[2] == "30 changes, the last 2 of them"
    assert said[-1].endswith("u   n=2842 → 2942")

    assert main(["state", "orders", "42", "--json", "--as-of", "5", "--bootstrap", bootstrap]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["exists"] is True
    assert [change["offset"] <= 5 for change in answer["changes"]] == [True] * len(
        answer["changes"]
    )


def test_the_command_says_what_it_cannot_find(bootstrap: str, capsys: pytest.CaptureFixture[str]):
    assert main(["state", "nowhere", "1", "--bootstrap", bootstrap]) == 1
    assert "there is no topic 'nowhere'" in capsys.readouterr().err
    assert main(["state", "orders", "nobody", "--bootstrap", bootstrap]) == 1
    assert "no record with the key 'nobody'" in capsys.readouterr().err
