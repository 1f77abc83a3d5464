"""Why redelivery with load balancing reorders, while a partition with one consumer does not.

The first attempt at "paid" fails. In a share group its record is given back and comes again, but the
records behind it were already on their way: they are done first. A consumer that has the partition
for itself tries again before it goes on, so the order holds, and everything behind it waits.
"""

from __future__ import annotations

from confluent_kafka import AcknowledgeType, Consumer
from setting_up import (
    BOOTSTRAP,
    create_topic,
    new_name,
    send,
    share_consumer,
    share_group,
)

STEPS = ["ordered", "paid", "packed", "sent"]


def attempt(step: str, tries: dict[str, int]) -> bool:
    """Work that fails the first time for one of the records."""
    tries[step] = tries.get(step, 0) + 1
    return step != "paid" or tries[step] > 1


def in_a_share_group(topic: str) -> list[str]:
    consumer = share_consumer(topic, share_group("workers"))
    done: list[str] = []
    tries: dict[str, int] = {}
    while len(done) < len(STEPS):
        for message in consumer.poll(0.5):
            step = message.value().decode()
            if attempt(step, tries):
                done.append(step)
                consumer.acknowledge(message, AcknowledgeType.ACCEPT)
            else:
                consumer.acknowledge(message, AcknowledgeType.RELEASE)
        consumer.commit_sync(10)
    consumer.close()
    return done


def alone_with_the_partition(topic: str) -> list[str]:
    consumer = Consumer(
        {
            "bootstrap.servers": BOOTSTRAP,
            "group.id": new_name("alone"),
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    done: list[str] = []
    tries: dict[str, int] = {}
    while len(done) < len(STEPS):
        message = consumer.poll(0.5)
        if message is None or message.error() is not None:
            continue
        step = (message.value() or b"").decode()
        while not attempt(step, tries):
            pass  # try again here: nothing overtakes it
        done.append(step)
        consumer.commit(message, asynchronous=False)
    consumer.close()
    return done


def main() -> None:
    topic = create_topic("parcel")
    send(topic, STEPS)
    shared, alone = in_a_share_group(topic), alone_with_the_partition(topic)
    print("share group:  ", " → ".join(shared))
    print("one consumer: ", " → ".join(alone))
    assert alone == STEPS
    assert shared != STEPS
    assert sorted(shared) == sorted(STEPS), "nothing is lost, and nothing is done twice"


if __name__ == "__main__":
    main()
