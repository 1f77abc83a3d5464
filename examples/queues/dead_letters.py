"""Dead letters: what a worker rejects, or cannot do after some attempts, is kept for later.

On headwater, where a share group has a dead-letter topic (`dlq.` and its name) unless it is told
otherwise; Apache Kafka 4.3 drops such records.
"""

from __future__ import annotations

import subprocess
import sys

from confluent_kafka import AcknowledgeType
from setting_up import BOOTSTRAP, create_topic, send, share_consumer, share_group


def main() -> None:
    topic = create_topic("payments")
    group = share_group("cashiers", share_delivery_count_limit="2")
    send(topic, ["10 EUR", "nonsense", "unlucky"])
    consumer = share_consumer(topic, group)
    settled = 0
    while settled < 4:  # "unlucky" comes twice
        for message in consumer.poll(0.5):
            kinds = {
                b"10 EUR": AcknowledgeType.ACCEPT,
                b"nonsense": AcknowledgeType.REJECT,
                b"unlucky": AcknowledgeType.RELEASE,
            }
            consumer.acknowledge(message, kinds[message.value()])
            settled += 1
        consumer.commit_sync(10)
    consumer.close()
    for words in (["list", f"dlq.{group}"], ["replay", f"dlq.{group}"]):
        command = [sys.executable, "-m", "headwater", "deadletters", *words]
        print("$", "headwater deadletters", *words, flush=True)
        subprocess.run([*command, "--bootstrap", BOOTSTRAP], check=True)


if __name__ == "__main__":
    main()
