"""A consumer in a process of its own, so that a test can kill it: prints one JSON line per event.

Run as a script: `python reader_process.py bootstrap group topic '{"session.timeout.ms": 1000}'`.
"""

from __future__ import annotations

import json
import sys

from confluent_kafka import Consumer


def say(**event: object) -> None:
    print(json.dumps(event), flush=True)


def main() -> None:
    bootstrap, group, topic, options = sys.argv[1:]
    settings = {"auto.offset.reset": "earliest", "heartbeat.interval.ms": 100}
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            **settings,
            **json.loads(options),
        }
    )
    reader.subscribe(
        [topic],
        on_assign=lambda _, given: say(assigned=[each.partition for each in given]),
    )
    while True:
        message = reader.poll(0.1)
        if message is not None and message.error() is None:
            say(partition=message.partition(), offset=message.offset())


if __name__ == "__main__":
    main()
