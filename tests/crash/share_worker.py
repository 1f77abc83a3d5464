"""A worker of a share group, to be killed: it writes down what it gets, and what is settled.

    python share_worker.py BOOTSTRAP TOPIC GROUP FILE

Each line: time, `got` or `done`, the record's number. `done` only after the broker has said so.
Numbers that 17 divides are rejected.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TextIO

from confluent_kafka import AcknowledgeType, ShareConsumer

POISON = 17


def work(bootstrap: str, topic: str, group: str, out: TextIO) -> None:
    consumer = ShareConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "share.acknowledgement.mode": "explicit",
            "reconnect.backoff.ms": 5,
            "reconnect.backoff.max.ms": 50,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    while True:
        settled = {}
        for message in consumer.poll(0.5):
            if message.error() is not None:
                continue
            number = int(message.value() or b"")
            print(time.monotonic(), "got", number, file=out, flush=True)
            kind = AcknowledgeType.REJECT if number % POISON == 0 else AcknowledgeType.ACCEPT
            consumer.acknowledge(message, kind)
            settled[message.partition(), message.offset()] = number
        if not settled:
            continue
        answers = consumer.commit_sync(5)
        fine = {place.partition for place, error in answers.items() if error is None}
        for (partition, _), number in settled.items():
            if partition in fine:
                print(time.monotonic(), "done", number, file=out, flush=True)


if __name__ == "__main__":
    with Path(sys.argv[4]).open("a") as out:
        work(*sys.argv[1:4], out)
