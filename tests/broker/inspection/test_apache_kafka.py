"""A data folder that Apache Kafka has written: what is right in it is not complained of, damage is named."""

from __future__ import annotations

import contextlib
from pathlib import Path

from confluent_kafka import Producer

from headwater.broker.inspection.check import inspect
from headwater.broker.inspection.repair import repair
from headwater.testing.apache_kafka import QUICK_JVM, MissingServer, apache_kafka
from tests.broker.inspection.world import batches_of, spoil
from tests.compat.missing import skip_or_fail

RECORDS = 400


def written_by_kafka(data: Path) -> Path:
    with contextlib.ExitStack() as stack:
        try:
            settings = {"log.segment.bytes": "1048576", "num.partitions": "2"}
            kafka = stack.enter_context(apache_kafka(settings, log_dir=data, jvm=QUICK_JVM))
        except MissingServer as missing:
            skip_or_fail(f"{missing}: Apache Kafka cannot run here")
        for transaction in (None, "committed", "aborted"):
            options = {} if transaction is None else {"transactional.id": transaction}
            producer = Producer({"bootstrap.servers": kafka.bootstrap, "linger.ms": 0, **options})
            if transaction is not None:
                producer.init_transactions()
                producer.begin_transaction()
            for number in range(RECORDS):
                producer.produce("orders", b"v" * 100, key=b"%d" % number)
                producer.flush() if number % 40 == 0 else producer.poll(0)
            producer.flush()
            if transaction == "committed":
                producer.commit_transaction()
            elif transaction == "aborted":
                producer.abort_transaction()
    return data


def test_a_folder_of_apache_kafka_is_right_and_its_damage_is_named_and_left_alone(
    tmp_path: Path,
) -> None:
    data = written_by_kafka(tmp_path / "kafka")
    report = inspect(data)
    assert report.is_kafkas
    assert report.wrong == []
    assert report.records >= 3 * RECORDS
    path = max((data / "orders-0").glob("*.log"), key=lambda each: each.stat().st_size)
    position, header = batches_of(path)[2]
    spoil(path, position + 70)
    damaged = {each: each.read_bytes() for each in data.rglob("*") if each.is_file()}
    (finding,) = inspect(data).wrong
    assert (finding.topic, finding.partition) == ("orders", 0)
    assert (finding.first_offset, finding.last_offset) == (header.base_offset, header.last_offset)
    outcome = repair(data)
    assert outcome.aside is None, "Kafka mends its own folder"
    assert {each: each.read_bytes() for each in data.rglob("*") if each.is_file()} == damaged
