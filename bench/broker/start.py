"""How soon a new broker is of use: from process start to listening, and to a first stored record.

Each start is on an empty folder; for Kafka the folder is formatted before, and that is not counted.
The record's topic is created first, which is counted. Only the defaults of each product: an fsync more
or less does not show here. Idle memory is read from the same starts.
"""

from __future__ import annotations

import shutil

from bench.broker import batches, meter, wire
from bench.broker.contestants import DEFAULTS, Broker
from bench.broker.plan import Plan, say
from bench.broker.results import Results


def measure(plan: Plan, results: Results) -> None:
    for turn in range(plan.starts):
        for contestant in DEFAULTS:
            broker = Broker(contestant, plan.home / f"start-{contestant.product}-{turn}")
            try:
                listening_s = broker.start()
                idle_mb = meter.resident_mb(broker.pid)
                with wire.Connection(broker.bootstrap) as connection:
                    wire.create_topic(connection, "first", 1)
                first_ack_s = first_ack(broker, "first", 1)
            finally:
                broker.stop()
                shutil.rmtree(broker.data, ignore_errors=True)
            seconds = {"listening_s": listening_s, "first_ack_s": first_ack_s}
            results.add("start", contestant, seconds)
            results.add("memory", contestant, {"idle_mb": idle_mb})
            say(
                f"start: {broker.name:14} listening {listening_s:.2f} s, "
                f"first record {first_ack_s:.2f} s, {idle_mb:.0f} MB"
            )


def first_ack(broker: Broker, topic: str, partitions: int) -> float:
    """Produce one record to each partition until all are taken; seconds since process start.

    A refusal is asked again at once: while it recovers, Kafka answers before it leads its partitions.
    """
    batch = batches.build(100, 0).data
    waiting = set(range(partitions))
    with wire.Connection(broker.bootstrap) as connection:
        while waiting:
            for partition in sorted(waiting):
                connection.send(wire.produce_frame(topic, {partition: batch}))
                try:
                    wire.check_produced(connection.receive())
                    waiting.discard(partition)
                except wire.Refused:
                    if meter.age_s(broker.pid) > 120:
                        raise
    return meter.age_s(broker.pid)
