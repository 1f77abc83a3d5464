"""A topic of so many records of one size, written quickly and the same way into any broker.

Batches of 16 KB, as producers make them by default; values do not compress and there are no keys. All
partitions get the same number of records.
"""

from __future__ import annotations

from bench.broker import batches, wire

BATCH_BYTES = 16 * 1024
IN_FLIGHT = 8
FRAME_BATCHES = 1


def fill(bootstrap: str, topic: str, partitions: int, records: int, record_bytes: int) -> int:
    """Create and fill the topic; how many records it has: at least as many as asked for."""
    batch = batches.build(record_bytes, BATCH_BYTES)
    per_partition = -(-records // (partitions * batch.count))
    with wire.Connection(bootstrap) as connection:
        wire.create_topic(connection, topic, partitions)
        frame = wire.produce_frame(topic, dict.fromkeys(range(partitions), batch.data))
        waiting = 0
        for _ in range(per_partition):
            connection.send(frame)
            waiting += 1
            if waiting == IN_FLIGHT:
                wire.check_produced(connection.receive())
                waiting -= 1
        for _ in range(waiting):
            wire.check_produced(connection.receive())
    return per_partition * partitions * batch.count
