"""One request of a share consumer, over very many partitions or batches: others are served in between.

Work is counted in lines of Python (`test_turns_of_state`). The records are real: what a request costs are the
batches that it looks at, and there may be 15,000 of them in a megabyte.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from kio.index import load_request_schema

from headwater.broker.registry import Context
from headwater.broker.shares import fetch
from headwater.broker.shares.records import Key
from headwater.record import batch as batches
from headwater.record import control, records
from tests.broker.serving import Serving, serving
from tests.broker.test_turns_of_state import Begin, Watch, watched
from tests.compat.wire import build

FEW, MANY = 20, 80
BATCHES = 30
GROUP, MEMBER = "g", "m"
VERSION = 1


class Place(NamedTuple):
    """A broker as `watched` wants it."""

    serving: Serving
    broker: Any


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    settings = {"durability": "os", "share.coordinator.state.topic.num.partitions": 1}
    with serving(tmp_path / "data", settings) as broker:
        broker.run(_alone(broker.broker))
        configs = {"share.auto.offset.reset": "earliest", "share.isolation.level": "read_committed"}
        broker.run(broker.broker.catalogue.set_group_configs(GROUP, configs))
        yield Place(broker, broker.broker)


async def _alone(broker: Any) -> None:
    """Nothing else is counted."""
    for beside in (broker.health_topic, broker.excisions, broker.cleaner):
        await beside.stop()
    await broker.shares.states.ensure()


def filled(place: Place, topic: str, partitions: int, count: int, aborts: bool = False) -> None:
    """A topic with so many batches of one record in each partition."""
    place.serving.create(topic, partitions)

    async def fill() -> None:
        for number in range(partitions):
            partition = place.broker.topics.partitions[topic, number]
            for sequence in range(count):
                for data in _aborted(sequence) if aborts else [_one()]:
                    partition.append(data, batches.read_header(data), 1)
            await partition.durable(partition.log.next_offset)
        client = ("client", "host")
        shares, known = place.broker.shares, place.broker.catalogue.topics[topic]
        shares.heartbeat(GROUP, MEMBER, 0, (topic,), client, None)
        # The disk is waited for here, and not while turns are counted.
        for number in range(partitions):
            await shares.owner(Key(GROUP, known.id, number), topic).open()

    place.serving.run(fill())


def _one() -> bytes:
    return records.build([records.Record(0, 1, b"k", b"v")])


def _aborted(sequence: int) -> list[bytes]:
    record = [records.Record(0, 1, b"k", b"v")]
    producer = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
    data = records.build(record, base_sequence=sequence, **producer)
    return [data, control.marker(control.ABORT, 7, 0, 0, 1, 0)]


def asked(
    place: Place, key: int, topic: str, partitions: int, max_bytes: int = 1 << 24, **fields: Any
) -> Begin:
    """What begins the request; `fields` are of each partition."""
    known = place.broker.catalogue.topics[topic]
    rows = [{"partition_index": number, **fields} for number in range(partitions)]
    request = build(
        load_request_schema(key, VERSION),
        {
            "group_id": GROUP,
            "member_id": MEMBER,
            "share_session_epoch": 1 if fields else 0,
            "max_bytes": max_bytes,
            "max_records": 1 << 20,
            "batch_size": 1 << 20,
            "topics": [{"topic_id": known.id, "partitions": rows}],
        },
        lenient=True,
    )
    handle, context = place.broker.apis[key].handle, Context(VERSION, "client", "host")
    return lambda: handle(place.broker, request, context)


def locked(place: Place) -> int:
    owners = place.broker.shares.owners.values()
    return sum(owner.state.next_offset(owner.limits()) for owner in owners if owner.state)


def check(few: Watch, many: Watch) -> None:
    """There is four times as much to do, in turns that are no longer."""
    assert many.total > 2 * few.total
    assert many.longest < 1.5 * few.longest, (
        f"{few.longest} lines in the longest turn, then {many.longest}: {many}"
    )


def test_what_is_delivered_from_many_partitions_is_not_delivered_in_one_turn(place: Place) -> None:
    seen = []
    for count in (FEW, MANY):
        filled(place, f"t{count}", count, BATCHES)
        # Each partition fills its share at once: there is no rest for a second look at it.
        begin = asked(place, 78, f"t{count}", count, count * BATCHES * len(_one()))
        before = locked(place)
        seen.append(watched(place, lambda: begin))  # type: ignore[arg-type]  # noqa: B023
        assert locked(place) - before == count * BATCHES
    check(*seen)


def test_what_is_delivered_from_many_batches_is_not_delivered_in_one_turn(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "READ_BYTES_MAX", 1000)
    seen = []
    for count in (FEW, MANY):
        filled(place, f"t{count}", 1, 14 * count)
        begin = asked(place, 78, f"t{count}", 1)
        seen.append(watched(place, lambda: begin))  # type: ignore[arg-type]  # noqa: B023
    check(*seen)


def test_what_was_aborted_in_many_partitions_is_not_passed_over_in_one_turn(place: Place) -> None:
    seen = []
    for count in (FEW, MANY):
        filled(place, f"t{count}", count, BATCHES, aborts=True)
        begin = asked(place, 78, f"t{count}", count)
        seen.append(watched(place, lambda: begin))  # type: ignore[arg-type]  # noqa: B023
    check(*seen)


def test_what_is_acknowledged_in_many_partitions_is_not_settled_in_one_turn(place: Place) -> None:
    one_by_one = [
        {"first_offset": n, "last_offset": n, "acknowledge_types": [1]} for n in range(BATCHES)
    ]
    seen = []
    for count in (FEW, MANY):
        filled(place, f"t{count}", count, BATCHES)
        begin = asked(place, 78, f"t{count}", count)
        place.serving.run(_answered(begin))
        topic = place.broker.catalogue.topics[f"t{count}"].id
        begin = asked(place, 79, f"t{count}", count, acknowledgement_batches=one_by_one)
        seen.append(watched(place, lambda: begin))  # type: ignore[arg-type]  # noqa: B023
        owners = [o for key, o in place.broker.shares.owners.items() if key.topic_id == topic]
        assert [owner.state.start for owner in owners] == [BATCHES] * count
    check(*seen)


async def _answered(begin: Begin) -> None:
    answer = begin()
    assert not isinstance(answer, dict)
    await answer  # type: ignore[misc]
