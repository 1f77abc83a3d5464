"""Debezium's envelope: what each kind of change becomes."""

from __future__ import annotations

import json

import pytest

from headwater.capture.change import EVERY_PARTITION
from headwater.capture.envelope import Column, TableEncoder, transaction_record

COLUMNS = [Column("id", (("type", "int32"),), False), Column('50% "odd"')]
SOURCE, REST = '{"db":"shop"}', ',"ts_ms":5'


def encoder(*, key: tuple[int, ...] = (0,), tombstones: bool = True) -> TableEncoder:
    return TableEncoder("shop.t", COLUMNS, key, tombstones=tombstones)


def test_a_created_row_has_key_after_source_and_op() -> None:
    topic, key, value = encoder().created(["7", '"x"'], SOURCE, REST)[:3]
    assert (topic, key) == ("shop.t", b'{"id":7}')
    assert json.loads(value or b"") == {
        "before": None,
        "after": {"id": 7, '50% "odd"': "x"},
        "source": {"db": "shop"},
        "op": "c",
        "ts_ms": 5,
    }


def test_a_delete_is_followed_by_a_tombstone_where_there_is_a_key_and_they_are_wanted() -> None:
    event, tombstone = encoder().deleted(["7", "null"], SOURCE, REST)
    assert event[1] == tombstone[1] and tombstone[2] is None
    assert len(encoder(tombstones=False).deleted(["7", "null"], SOURCE, REST)) == 1
    assert len(encoder(key=()).deleted(["7", "null"], SOURCE, REST)) == 1


@pytest.mark.parametrize("before", [None, ["7", '"old"']])
def test_an_update_of_the_same_key_is_one_record(before: list[str] | None) -> None:
    (record,) = encoder().updated(before, ["7", '"new"'], SOURCE, REST)
    value = json.loads(record[2] or b"")
    assert value["op"] == "u" and (value["before"] is None) == (before is None)


def test_an_update_to_another_key_is_delete_tombstone_create() -> None:
    records = encoder().updated(["6", "null"], ["7", "null"], SOURCE, REST)
    assert [record[1] for record in records] == [b'{"id":6}', b'{"id":6}', b'{"id":7}']
    ops = [json.loads(record[2])["op"] if record[2] else None for record in records]
    assert ops == ["d", None, "c"]


def test_a_truncate_is_for_every_partition() -> None:
    assert encoder().truncated(SOURCE, REST)[3:] == (None, EVERY_PARTITION)


def test_end_of_a_transaction_counts_events_per_table() -> None:
    _, key, value = transaction_record("t", "END", "7:8", 5, {"public.a": 2, "public.b": 1})[:3]
    assert json.loads(key or b"") == {"id": "7:8"}
    assert json.loads(value or b"")["event_count"] == 3
