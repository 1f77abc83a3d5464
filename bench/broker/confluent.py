"""Throughput through confluent-kafka, the client that most Python programs use.

Batches tuned as its users tune them; records come back in lists of 10,000. One Python call per
record makes this the client's limit rather than the broker's: read the CPU column beside it.
"""

from __future__ import annotations

import os

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from bench.broker import machine, wire
from bench.broker.contestants import Broker
from bench.broker.meter import Meter
from bench.broker.plan import PARTITIONS, RECORD_SIZES, Plan, say
from bench.broker.raw import rotated
from bench.broker.results import Results

_PRODUCER = {
    "acks": "all",
    "linger.ms": 20,
    "batch.size": 1_000_000,
    "batch.num.messages": 10_000,
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 512_000,
}
_CONSUMER = {
    "group.id": "bench",
    "enable.auto.commit": False,
    "fetch.wait.max.ms": 100,
    "queued.min.messages": 1_000_000,
    "fetch.queue.backoff.ms": 5,  # by default it stops for 1 s whenever its queue was full
}
_CONSUME_COUNT = 10_000
_IDLE_S = 30.0


def measure(plan: Plan, brokers: list[Broker], results: Results) -> None:
    for turn in range(plan.rounds):
        for record_bytes, records in zip(RECORD_SIZES, plan.confluent_records, strict=True):
            for broker in rotated(brokers, turn):
                _round(plan, broker, results, record_bytes, records)


def _round(plan: Plan, broker: Broker, results: Results, record_bytes: int, records: int) -> None:
    topic = f"confluent-{record_bytes}-{os.urandom(4).hex()}"
    scenario = f"confluent-kafka, {record_bytes} B"
    with wire.Connection(broker.bootstrap) as admin:
        wire.create_topic(admin, topic, PARTITIONS)
        machine.settle(plan.home, records * record_bytes // 1_000_000)
        with Meter(broker.pid) as usage:
            _produce(broker.bootstrap, topic, os.urandom(record_bytes), records)
        produced = {"records_per_s": records / usage.wall_s, **usage.metrics(records)}
        results.add(f"produce, {scenario}", broker.contestant, produced)
        consumer = Consumer({**_CONSUMER, "bootstrap.servers": broker.bootstrap})
        with Meter(broker.pid) as usage:
            _consume(consumer, topic, records)
        consumer.close()  # not timed: it may wait for a group coordinator that nobody needs here
        fetched = {"records_per_s": records / usage.wall_s, **usage.metrics(records)}
        results.add(f"fetch, {scenario}", broker.contestant, fetched)
        wire.delete_topic(admin, topic)
    rates = [each["records_per_s"] / 1e6 for each in (produced, fetched)]
    say(f"{scenario}: {broker.name:14} produce {rates[0]:5.2f} M/s, fetch {rates[1]:5.2f} M/s")


def _produce(bootstrap: str, topic: str, value: bytes, records: int) -> None:
    failures: list[KafkaError] = []

    def note(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    # Only failures call back: a Python call for each delivery would halve the client's rate.
    producer = Producer(
        {**_PRODUCER, "bootstrap.servers": bootstrap, "delivery.report.only.error": True}
    )
    produce, sent = producer.produce, 0
    while sent < records:
        try:
            produce(topic, value, on_delivery=note)
            sent += 1
        except BufferError:
            producer.poll(0.01)
    left = producer.flush(_IDLE_S)
    if failures or left:
        raise wire.Refused(f"{len(failures)} records failed, {left} never left: {failures[:1]}")


def _consume(consumer: Consumer, topic: str, records: int) -> None:
    """Assigned, not subscribed: the rate of reading, without the wait for a group."""
    consumer.assign([TopicPartition(topic, each, 0) for each in range(PARTITIONS)])
    received = 0
    while received < records:
        messages = consumer.consume(_CONSUME_COUNT, _IDLE_S)
        if not messages:
            raise wire.Refused(f"nothing came for {_IDLE_S:.0f} s after {received} records")
        for message in messages:
            if message.error() is not None:
                raise wire.Refused(str(message.error()))
        received += len(messages)
