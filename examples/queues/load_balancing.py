"""Load balancing: one queue, many workers, each job to one of them.

The topic has a single partition, and still all workers of the share group have something to do.
"""

from __future__ import annotations

import threading
import time
from collections import Counter

from confluent_kafka import AcknowledgeType
from setting_up import Worker, create_topic, send, share_group

JOBS = 60


def main() -> None:
    topic, group = create_topic("jobs"), share_group("workers")
    done: dict[str, str] = {}
    finished = threading.Event()

    def work(name: str, message: object) -> int:
        value = message.value().decode()  # type: ignore[attr-defined]
        assert value not in done, "a job that was accepted does not come again"
        done[value] = name
        time.sleep(0.005)  # the work
        if len(done) == JOBS:
            finished.set()
        return AcknowledgeType.ACCEPT

    workers = [Worker(topic, group, f"worker {number}", work) for number in (1, 2, 3)]
    for worker in workers:
        worker.start()
    for first in range(0, JOBS, 5):
        send(topic, [f"job {number}" for number in range(first, first + 5)])
    assert finished.wait(30)
    for worker in workers:
        worker.end()
    for name, count in sorted(Counter(done.values()).items()):
        print(f"{name} did {count} jobs")
    print(f"{len(done)} jobs done, each once")


if __name__ == "__main__":
    main()
