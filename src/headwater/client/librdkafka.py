"""confluent-kafka's clients, for those who need all their words: members of groups, writers of transactions.

The one place outside which nobody names that library; a contract in `pyproject.toml` checks it. Whoever only
asks, reads or writes uses what is made of them: `log`, `topics`, `groups`, `settings`, `publisher`, `tail`.

    AWAY      librdkafka goes on trying by itself
    LATER     of a commit: the group or the broker is busy with itself
    FENCED    another process has taken over, as producer or as member of a group
    FOR_GOOD  the same record would be refused again, however often it is sent
"""

from __future__ import annotations

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

AWAY = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._RESOLVE,
    }
)
LATER = frozenset(
    {
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._WAIT_COORD,
        KafkaError._ASSIGNMENT_LOST,
    }
)
FENCED = frozenset(
    {
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.FENCED_INSTANCE_ID,
    }
)
FOR_GOOD = frozenset(
    {
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_RECORD,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.POLICY_VIOLATION,
        KafkaError.RECORD_LIST_TOO_LARGE,
    }
)

__all__ = [
    "AWAY",
    "FENCED",
    "FOR_GOOD",
    "LATER",
    "OFFSET_BEGINNING",
    "AdminClient",
    "Consumer",
    "KafkaError",
    "KafkaException",
    "Message",
    "Producer",
    "TopicPartition",
]
