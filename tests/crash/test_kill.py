"""kill -9 at any moment, again and again, under load: nothing that was acknowledged is lost."""

from __future__ import annotations

import os
from collections import defaultdict
from random import Random

from headwater.testing.apache_kafka import MissingServer

from .clients import NumberedProducer, Stored, create_topic, read_all, until
from .dump import problems
from .process import BrokerProcess

ROUNDS = 100 if os.environ.get("HEADWATER_SOAK") == "1" else 3
PARTITIONS = 3


def test_no_acknowledged_record_is_lost_by_kill_9(
    broker: BrokerProcess, dice: Random, say: list[str]
) -> None:
    create_topic(broker.bootstrap, "numbers", PARTITIONS)
    producers = [
        NumberedProducer(broker.bootstrap, "numbers", f"p{n}", **{"enable.idempotence": True})
        for n in range(3)
    ]
    for producer in producers:
        producer.start()
    for _ in range(ROUNDS):
        acknowledged = sum(len(producer.acknowledged) for producer in producers)
        wanted = acknowledged + dice.randint(1, 1500)
        until(lambda w=wanted: _count(producers) >= w, "acknowledgements")  # type: ignore[misc]
        broker.kill()
        broker.start()
    for producer in producers:
        producer.end()

    found = read_all(broker.bootstrap, "numbers", PARTITIONS)
    there = set(found)
    acknowledged_records = [record for p in producers for record in p.acknowledged]
    lost = [record for record in acknowledged_records if record not in there]
    say.append(
        f"kill -9, {ROUNDS} times under load: {len(acknowledged_records)} records acknowledged; "
        f"acknowledged records lost: {len(lost)}"
    )
    assert not lost, lost[:5]
    assert not [refusal for producer in producers for refusal in producer.refused]
    check_order(found)
    assert len(found) == sum(producer.sent for producer in producers), "each record once"
    broker.stop()
    _check_with_kafkas_tool(broker, say)


def _count(producers: list[NumberedProducer]) -> int:
    return sum(len(producer.acknowledged) for producer in producers)


def check_order(found: list[Stored]) -> None:
    """Offsets without a gap, and every producer's numbers in order, once each."""
    offsets: dict[int, int] = defaultdict(int)
    numbers: dict[tuple[int, bytes], int] = {}
    for partition, offset, value in found:
        assert offset == offsets[partition], "an offset is missing"
        offsets[partition] += 1
        name, _, number = value.partition(b":")
        assert int(number) > numbers.get((partition, name), -1), f"{value!r} comes late or twice"
        numbers[partition, name] = int(number)


def _check_with_kafkas_tool(broker: BrokerProcess, say: list[str]) -> None:
    folders = [broker.folder("numbers", number) for number in range(PARTITIONS)]
    try:
        found, files = problems(folders)
    except MissingServer as missing:
        say.append(f"NOT CHECKED WITH KAFKA'S DumpLogSegments: {missing}")
        if os.environ.get("HEADWATER_REQUIRE_SERVERS") == "1":
            raise
        return
    assert not found, "\n".join(found[:20])
    say.append(f"Kafka's DumpLogSegments finds nothing wrong in {files} files after the kills")
