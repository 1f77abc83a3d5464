"""What can go wrong between a program and the log: one family, each a sentence with what to do next.

Everything in `client` raises these, whichever of the two clients met the error: confluent-kafka's own errors
become ours in `told`, error codes of the raw protocol in `cluster.check`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec
from weakref import WeakMethod

from headwater.errors import HeadwaterError

P = ParamSpec("P")


class ClientError(HeadwaterError):
    """The log could not be asked, or said no."""


class QueryError(ClientError):
    """What a query of Spark's may end with. Spark shows an error as text, so the hint is part of it."""

    hint_in_text = True

    def __str__(self) -> str:
        sentence = super().__str__()
        return f"{sentence} {self.hint}" if self.hint else sentence


class BadOption(QueryError):
    """A setting or an option that cannot be meant."""


class BadRequest(ClientError):
    """What was asked for makes no sense as it was written."""


class BrokerUnreachable(ClientError):
    """No broker answered, or not in time."""


class InstanceFenced(BrokerUnreachable):
    """Another process has taken over under the same name: as producer, or as member of a group."""


class LoginRefused(QueryError):
    """The broker was reached and does not let this user in: trying again would not help."""


class RequestRefused(ClientError):
    """The broker answered, and the answer was no; trying again does not mend it. `code` is Kafka's, or -1."""

    def __init__(self, sentence: str, *, hint: str | None = None, code: int = -1) -> None:
        super().__init__(sentence, hint=hint)
        self.code = code


class NotThere(ClientError):
    """The topic, partition, offset or group that was named does not exist."""


class UnknownTopic(NotThere):
    """The topic, or one of its partitions, is not there."""


class DataLoss(QueryError):
    """Records that should have been read are gone (`failOnDataLoss`)."""


class TransactionLost(QueryError):
    """A transaction is over before its time: what was to be written in it must be written again."""


class OutcomeUnknown(ClientError):
    """The broker was told to do it, and never said whether it did."""


_AWAY = ("_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE", "_TIMED_OUT", "_MSG_TIMED_OUT", "_DESTROY")
_NO_RIGHT = "the user lacks a right: see headwater acls"
_HINTS = {
    "TOPIC_AUTHORIZATION_FAILED": _NO_RIGHT,
    "GROUP_AUTHORIZATION_FAILED": _NO_RIGHT,
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": _NO_RIGHT,
    "UNKNOWN_TOPIC_OR_PART": "headwater topics list shows the topics that exist",
    "MSG_SIZE_TOO_LARGE": "the topic's max.message.bytes is the limit: headwater topics alter",
    "INVALID_RECORD": "a compacted topic takes only records with a key, and one with schema.validation=true "
    "only values that begin with the id of a schema of TOPIC-value",
    "NON_EMPTY_GROUP": "stop its members first",
    "UNKNOWN_MEMBER_ID": "stop its members first",
    "GROUP_ID_NOT_FOUND": "headwater groups list shows the groups that exist",
    "GROUP_SUBSCRIBED_TO_TOPIC": "stop its members first",
    "CLUSTER_AUTHORIZATION_FAILED": _NO_RIGHT,
    "TOPIC_ALREADY_EXISTS": "choose another name",
    "TOPIC_EXCEPTION": "use letters, digits, dot, dash and underscore, at most 249 of them",
    "INVALID_TOPIC_EXCEPTION": "use letters, digits, dot, dash and underscore, at most 249 of them",
    "INVALID_PARTITIONS": "a topic's partitions can only become more",
    "SECURITY_DISABLED": "permissions count where the broker has an authorizer.class.name",
}


def hint_for(name: str) -> str | None:
    """What to do about an error of Kafka's, by its name."""
    return _HINTS.get(name)


def translated(error: Any, what: str, bootstrap: str) -> ClientError:
    """One of confluent-kafka's errors as one of ours; `what` was attempted."""
    name = error.name()
    if name in _AWAY:
        return BrokerUnreachable(
            f"{what}: the broker at {bootstrap} did not answer in time ({name})",
            hint="is it running, and the address right? One that wants TLS or a login is reached "
            "with HEADWATER_CLIENT_CONFIG=FILE (docs/security.md)",
        )
    said = (error.str() or name).strip().rstrip(".")
    return RequestRefused(f"{what}: {said} ({name})", hint=_HINTS.get(name), code=error.code())


@contextmanager
def told(what: str, bootstrap: str) -> Iterator[None]:
    """What confluent-kafka raises inside leaves as one of ours."""
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as failure:
        raise translated(failure.args[0], what, bootstrap) from None


def weakly(heard: Callable[P, None]) -> Callable[P, None]:
    """A method as what a client calls: else its object and the client would keep each other, and threads."""
    known = WeakMethod(heard)

    def tell(*told: P.args, **named: P.kwargs) -> None:
        if (method := known()) is not None:
            method(*told, **named)

    return tell
