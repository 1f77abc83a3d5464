"""Fan-out: one topic, two groups, and each group gets every record.

Nothing is copied: the log keeps a record once, and each group its own account of what it has done.
"""

from __future__ import annotations

from confluent_kafka import AcknowledgeType
from setting_up import create_topic, send, share_consumer, share_group


def read(topic: str, group: str, count: int) -> list[str]:
    consumer = share_consumer(topic, group)
    found: list[str] = []
    while len(found) < count:
        for message in consumer.poll(0.5):
            found.append(message.value().decode())
            consumer.acknowledge(message, AcknowledgeType.ACCEPT)
        consumer.commit_sync(10)
    consumer.close()
    return found


def main() -> None:
    topic = create_topic("orders")
    orders = [f"order {number}" for number in range(5)]
    send(topic, orders)
    for stem in ("billing", "shipping"):
        found = read(topic, share_group(stem), len(orders))
        assert found == orders
        print(f"{stem} got {', '.join(found)}")


if __name__ == "__main__":
    main()
