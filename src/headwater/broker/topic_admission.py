"""What may become of a topic, and what is said where it may not: for `topics` and those who ask it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from kio.schema.errors import ErrorCode

from headwater.broker.catalogue import Topic
from headwater.log.partition import StorageFailed

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
PARTITIONS_MAX = 10_000
"""Of one topic. Each has a folder and open files; more is a mistake on one machine."""


class TopicError(Exception):
    """A topic operation that is refused, with the protocol's code."""

    def __init__(self, code: ErrorCode, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code

    @property
    def row(self) -> dict[str, object]:
        """What the answer says of the topic."""
        return {"error_code": self.code, "error_message": str(self)}


Admission = Callable[[Topic], None]
"""Looks at a topic in the turn in which it is changed, when nobody else can change it any more: raises
TopicError. What was seen before that may be of another topic."""


def anything(topic: Topic) -> None:
    """For those who know."""


def unknown_topic(why: str = "This server does not host this topic-partition.") -> TopicError:
    return TopicError(ErrorCode.unknown_topic_or_partition, why)


def check_name(name: str) -> None:
    """Raise TopicError unless a topic may be called this."""
    if name in ("", ".", ".."):
        raise TopicError(ErrorCode.invalid_topic_exception, f"{name!r} is not a topic name")
    if not _NAME.fullmatch(name):
        raise TopicError(
            ErrorCode.invalid_topic_exception,
            f"Topic name is invalid: {name[:300]!r} is not made of at most 249 ASCII letters, "
            f"digits, '.', '_' and '-'",
        )


def clashing(name: str, names: Iterable[str]) -> str | None:
    """Kafka treats '.' and '_' as one letter here, because its metric names do."""
    if "." not in name and "_" not in name:
        return None
    same = name.replace(".", "_")
    return next((each for each in names if each != name and each.replace(".", "_") == same), None)


@contextmanager
def storage_errors() -> Iterator[None]:
    try:
        yield
    except (StorageFailed, OSError) as error:
        raise TopicError(
            ErrorCode.kafka_storage_error, f"the disk refused the change: {error}"
        ) from error
