"""What became of a transaction whose commit was not answered. Called by `browse.replay`.

The one who sent it is fenced first: from then on it is committed or aborted, and stays so. Which of the two,
the log itself says: a reader of committed records finds one of its records, or does not.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from headwater.client.log import TIMEOUT_S, Log, read_from

_LOOK_EVERY_S = 0.05


class Outcome(enum.Enum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


def outcome_of(log: Log, fence: Callable[[], None], witness: TopicPartition | None) -> Outcome:
    """`fence` opens the same transactional id anew. `witness`: where a record of the transaction lies.

    None: none of its records was ever acknowledged, so nobody can have committed it.
    """
    try:
        fence()
        if witness is None:
            return Outcome.ABORTED
        if not _is_decided(log, witness):
            return Outcome.UNKNOWN
        return Outcome.COMMITTED if _is_read(log, witness) else Outcome.ABORTED
    except KafkaException:
        return Outcome.UNKNOWN


def _is_decided(log: Log, witness: TopicPartition) -> bool:
    """Whether readers of committed records come past it, in time."""
    place = TopicPartition(witness.topic, witness.partition)
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        asked = log.admin.list_offsets(
            {place: OffsetSpec.latest()},
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=TIMEOUT_S,
        )
        if int(asked[place].result().offset) > witness.offset:
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_EVERY_S)


def _is_read(log: Log, witness: TopicPartition) -> bool:
    with log.reader() as consumer:
        read_from(consumer, witness.topic, {witness.partition: witness.offset})
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            for message in consumer.consume(1, _LOOK_EVERY_S):
                error = message.error()
                if error is None:
                    return message.offset() == witness.offset
                if error.name() == "_PARTITION_EOF":
                    return False
                raise KafkaException(error)
    raise KafkaException(f"{witness.topic} could not be read")
