"""What could not be delivered, as a dead letter; pure but for the making of its topics.

A letter is the record as it was, with the headers of all dead letters (docs/queues.md). Sent back, it must go
to this subscription and to no other reader of the topic: so each has a topic of its own for what is to be
delivered again, which the letter names as where it came from. `headwater deadletters replay` then does right
without further words.

    webhooks.NAME.dead-letters ──headwater deadletters replay──▶ webhooks.NAME.again ──▶ the receiver

    __dlq.errors.topic, .partition, .offset     webhooks.NAME.again, 0, the record's offset
    __dlq.errors.record                         the record: topic-partition-offset
    __dlq.errors.group, .delivery.count, .message
    headwater-delivery                          the delivery's id, which stays the same
"""

from __future__ import annotations

import time

from headwater.client import dead_letters
from headwater.client import topics as making
from headwater.client.dead_letters import Cause
from headwater.client.log import TIMEOUT_S, Log
from headwater.client.publisher import Draft
from headwater.edges.webhooks.delivery import ID_HEADER, Delivery
from headwater.errors import HeadwaterError

AGAIN = ".again"
_LOOK_S = 0.02


def letter(delivery: Delivery, reason: str, group: str, again: str) -> Draft:
    record = delivery.record
    own = [(name, value) for name, value in record.headers if name != ID_HEADER]
    own.append((ID_HEADER, delivery.id.encode()))
    cause = Cause(
        group, reason, again, 0, record.offset, delivery.attempt, more={"record": record.id}
    )
    return dead_letters.draft(record.key, record.value, own, cause, partition=0)


def topics_of(name: str) -> tuple[str, str]:
    """The dead letters of `webhooks.NAME` or `alerts.NAME`, and what is to be delivered again."""
    return dead_letters.beside(name), name + AGAIN


def ensure(log: Log, *topics: str, **settings: str) -> None:
    """That they are there, with one partition."""
    for topic in topics:
        if making.ensure(log, topic, 1, **settings):
            _wait_for(log, topic)


def _wait_for(log: Log, topic: str) -> None:
    """Until it can be read: what was made has no leader at first."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            log.ranges(topic)
            return
        except HeadwaterError:
            if time.monotonic() > deadline:
                raise
        time.sleep(_LOOK_S)
