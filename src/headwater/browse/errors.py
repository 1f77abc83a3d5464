"""What can go wrong between a person and the log, each as one sentence with what to do next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from headwater.errors import HeadwaterError


class Unreachable(HeadwaterError):
    """No broker answered, or not in time."""


class Refused(HeadwaterError):
    """The broker answered, and the answer was no."""


class Undecided(HeadwaterError):
    """The broker was told to do it, and never said whether it did."""


class NotThere(HeadwaterError):
    """The topic, partition, offset or group that was named does not exist."""


class Misunderstood(HeadwaterError):
    """What was asked for makes no sense as it was written."""


_AWAY = ("_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE", "_TIMED_OUT", "_MSG_TIMED_OUT")
_HINTS = {
    "TOPIC_AUTHORIZATION_FAILED": "the user lacks a right: see headwater acls",
    "GROUP_AUTHORIZATION_FAILED": "the user lacks a right: see headwater acls",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "the user lacks a right: see headwater acls",
    "UNKNOWN_TOPIC_OR_PART": "headwater topics list shows the topics that exist",
    "MSG_SIZE_TOO_LARGE": "the topic's max.message.bytes is the limit: headwater topics alter",
    "INVALID_RECORD": "a compacted topic takes only records with a key",
    "NON_EMPTY_GROUP": "stop its members first",
    "UNKNOWN_MEMBER_ID": "stop its members first",
    "GROUP_ID_NOT_FOUND": "headwater groups list shows the groups that exist",
}


def translated(error: Any, what: str, bootstrap: str) -> HeadwaterError:
    """One of confluent-kafka's errors as one of ours; `what` was attempted."""
    name = error.name()
    if name in _AWAY:
        return Unreachable(
            f"{what}: the broker at {bootstrap} did not answer in time ({name})",
            hint="is it running, and the address right? One that wants TLS or a login is reached "
            "with HEADWATER_CLIENT_CONFIG=FILE (docs/security.md)",
        )
    said = (error.str() or name).strip().rstrip(".")
    return Refused(f"{what}: {said} ({name})", hint=_HINTS.get(name))


@contextmanager
def told(what: str, bootstrap: str) -> Iterator[None]:
    """What confluent-kafka raises inside leaves as one of ours."""
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as failure:
        raise translated(failure.args[0], what, bootstrap) from None
