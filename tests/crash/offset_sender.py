"""A transactional producer that can be told to stand up again: one transaction with offsets per line.

    python -m tests.crash.offset_sender BOOTSTRAP TOPIC GROUP STRATEGY

Reads a line, commits one record and the group's next offset, and answers `committed`. STRATEGY is
librdkafka's `metadata.recovery.strategy`. A process of its own, because a call of librdkafka that does
not come back can only be killed.
"""

from __future__ import annotations

import sys

from confluent_kafka import Consumer, Producer, TopicPartition

from .clients import DEADLINE_S, QUICK


def main(bootstrap: str, topic: str, group: str, strategy: str) -> None:
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": group, **QUICK})
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": group,
            "metadata.recovery.strategy": strategy,
            **QUICK,
        }
    )
    producer.init_transactions(DEADLINE_S)
    for number, _ in enumerate(sys.stdin, start=1):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number, partition=0)
        offsets = [TopicPartition(topic, 0, number)]
        producer.send_offsets_to_transaction(offsets, reader.consumer_group_metadata(), DEADLINE_S)
        producer.commit_transaction(DEADLINE_S)
        print("committed", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
