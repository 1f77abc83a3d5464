"""Topics that must be there: found, or made and waited for."""

from __future__ import annotations

import time

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import NewTopic

from headwater.browse.errors import NotThere, Unreachable, told
from headwater.browse.log import TIMEOUT_S, Log

_LOOK_S = 0.02


def ensure(log: Log, topic: str, partitions: int = -1, **settings: str) -> bool:
    """Whether it had to be made. -1: as many partitions as the broker gives a new topic.

    `settings` only count for one that is made: `cleanup_policy="compact"`.
    """
    try:
        log.partitions(topic)
        return False
    except NotThere:
        pass
    config = {name.replace("_", "."): value for name, value in settings.items()}
    new = NewTopic(topic, partitions, -1, config=config)
    with told(f"making the topic {topic}", log.bootstrap):
        try:
            log.admin.create_topics([new], request_timeout=TIMEOUT_S)[topic].result()
        except KafkaException as failure:
            if failure.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            log.partitions(topic)
            return True
        except (NotThere, Unreachable):  # a cluster takes a moment to tell all its brokers
            if time.monotonic() > deadline:
                raise
        time.sleep(_LOOK_S)
