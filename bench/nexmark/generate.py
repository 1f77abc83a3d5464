"""`python -m bench.nexmark.generate`: Nexmark's events into `nexmark.person`, `.auction` and `.bid`.

    headwater broker --data data/log &
    python -m bench.nexmark.generate --events 1000000

The same numbers give the same events, so that every engine reads the same.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

from bench.nexmark.events import EPOCH, START_MS, TOPICS, Plan, between, pieces
from bench.nexmark.log_writer import LogWriter, record_batches
from headwater.client.log import Log

PARTITIONS = 4
PIECE = 50_000
"""Events that are made at a time; a whole number of epochs."""
KEEP = {"retention.ms": "-1"}
"""Event time may be long ago."""


def write(bootstrap: str, plan: Plan, first: int = 0) -> None:
    """The events of a plan, from the first on, into topics that are there."""
    with LogWriter(bootstrap) as writer:
        for piece in pieces(plan, PIECE, first):
            for topic, rows in piece.items():
                writer.put(topic, rows)


def create(bootstrap: str, partitions: int = PARTITIONS) -> None:
    """The three topics, where they are not there."""
    with Log(bootstrap) as log:
        for topic in TOPICS:
            log.ensure_topic(topic, KEEP, partitions)


def compile_all() -> None:
    """What is compiled at its first use, without writing anything."""
    for rows in between(Plan(EPOCH), 0, EPOCH).values():
        list(record_batches(rows, PARTITIONS))


def main() -> int:
    arguments = _arguments()
    plan = Plan(
        arguments.events, arguments.seed, arguments.rate, arguments.disorder, arguments.start_ms
    )
    create(arguments.bootstrap, arguments.partitions)
    compile_all()
    began, cpu = time.perf_counter(), time.process_time()
    write(arguments.bootstrap, plan)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    print(
        f"{plan.events:,} events in {seconds:.2f} s: {plan.events / seconds:,.0f} events/s, "
        f"{cpu / plan.events * 1e6:.2f} CPU s per million here"
    )
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.nexmark.generate", description="Nexmark's events into the log."
    )
    parser.add_argument("--events", type=int, default=1_000_000, help="persons, auctions and bids")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=int, default=10_000, help="events in a second of event time")
    parser.add_argument(
        "--disorder", type=int, default=1000, help="times are shuffled within so many events"
    )
    parser.add_argument("--start-ms", type=int, default=START_MS, help="time of the first event")
    parser.add_argument("--partitions", type=int, default=PARTITIONS, help="of each topic")
    parser.add_argument(
        "--bootstrap", default=os.environ.get("HEADWATER_BOOTSTRAP", "127.0.0.1:9092")
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
