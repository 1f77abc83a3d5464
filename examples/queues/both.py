"""Load balancing and fan-out at once: every group gets every record, one worker of it each.

Two groups read one topic. Within a group the records are divided among its workers; between groups
nothing is divided.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict

from confluent_kafka import AcknowledgeType
from setting_up import Worker, create_topic, send, share_group

ORDERS = 40


def main() -> None:
    topic = create_topic("orders", partitions=2)
    billing, shipping = share_group("billing"), share_group("shipping")
    seen: dict[str, list[str]] = defaultdict(list)
    lock = threading.Lock()

    def work(name: str, message: object) -> int:
        with lock:
            seen[name].append(message.value().decode())  # type: ignore[attr-defined]
        time.sleep(0.005)
        return AcknowledgeType.ACCEPT

    workers = [
        Worker(topic, group, f"{stem} {number}", work)
        for stem, group in (("billing", billing), ("shipping", shipping))
        for number in (1, 2)
    ]
    for worker in workers:
        worker.start()
    for number in range(ORDERS):
        send(topic, [f"order {number}"], partition=number % 2)
    deadline = time.monotonic() + 30
    while sum(map(len, seen.values())) < 2 * ORDERS and time.monotonic() < deadline:
        time.sleep(0.02)
    for worker in workers:
        worker.end()
    for stem in ("billing", "shipping"):
        mine = {name: orders for name, orders in seen.items() if name.startswith(stem)}
        together = sorted(order for orders in mine.values() for order in orders)
        assert together == sorted(f"order {number}" for number in range(ORDERS)), "each one once"
        parts = " + ".join(str(len(orders)) for orders in mine.values())
        print(f"{stem}: {parts} = {len(together)} orders")


if __name__ == "__main__":
    main()
