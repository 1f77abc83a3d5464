"""Who asks for an excision, and who tells of changes at the edges: the connection's principal, put beside
what it writes by the broker (`SIGNED`); pure.

Produce calls `signed` before it looks at a request's batches, `excisions` the rest when it carries one out;
whoever shows the audit reads the same headers. What a client writes about itself is a claim, and only
repeated as one. In the headers of each record, as `headwater.on_behalf` names them:

    headwater.principal     User:ann; whatever a client sends under these two names is taken off
    headwater.host          the address that it came from

A batch that is no batch is left as it is: the checks behind refuse it. One that is larger than requests
need to be is refused too, and so is every further one of the same Produce request: signing is done in a turn
of the event loop, which a few kilobytes of compressed headers would keep busy for seconds.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from headwater.broker import internal_topics
from headwater.broker.excision_request import ExcisionRefused
from headwater.broker.registry import Context
from headwater.broker.security.acls import Operation, ResourceType
from headwater.broker.security.authorizer import Authorizer
from headwater.on_behalf import HOST, PRINCIPAL
from headwater.record import batch as batches
from headwater.record import records
from headwater.record.errors import PayloadTooLarge, RecordError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from headwater.broker.broker import Broker

Message = TypeVar("Message", bound="DataclassInstance")
"""A message of kio's, or a part of one."""
SIGNED = (internal_topics.EXCISIONS, internal_topics.EDGE_CHANGES)
BYTES_MAX = 1024**2
"""Of a batch of requests, uncompressed."""
RECORDS_MAX = HEADERS_MAX = 1000


class Author(NamedTuple):
    """Who has asked, as the broker knows it."""

    principal: str
    host: str


def signed(broker: Broker, request: Message, context: Context) -> Message:
    """The Produce request, with its author in those of its records that need one."""
    known = broker.catalogue.topics  # one may be made while the request is checked
    own = {known[name].id: name for name in SIGNED if name in known}
    topics = getattr(request, "topic_data", ())
    if not any(_signed_name(own, asked) for asked in topics):
        return request
    author = Author(context.principal, context.client_host)
    by_name = {name: _Signature(author) for name in SIGNED}
    data = tuple(
        by_name[name].topic(asked) if (name := _signed_name(own, asked)) else asked
        for asked in topics
    )
    return replace(request, topic_data=data)


def told(fields: Mapping[str, object], headers: records.Headers) -> dict[str, object]:
    """What the audit repeats of a request, with its author; what it said of itself is called `claimed`."""
    line = {name: value for name, value in fields.items() if name != "who"}
    if "who" in fields:
        line["claimed"] = fields["who"]
    author = author_of(headers)
    return line if author is None else {**line, "who": author.principal, "host": author.host}


def check_right(authorizer: Authorizer | None, headers: records.Headers, topic: str) -> None:
    """Raises ExcisionRefused: whoever takes records out must be allowed to delete them."""
    if authorizer is None:
        return
    author = author_of(headers)
    if author is None:
        raise ExcisionRefused(
            "nobody knows who asked for it: it is older than this broker; ask again"
        )
    if not authorizer.allows(*author, Operation.DELETE, ResourceType.TOPIC, topic):
        raise ExcisionRefused(
            f"{author.principal} may not delete records of {topic}; allow it: "
            f"headwater acls allow {author.principal} delete topic:{topic}"
        )


def author_of(headers: records.Headers) -> Author | None:
    """None: a record from before brokers signed."""
    found = dict(headers)
    principal, host = found.get(PRINCIPAL), found.get(HOST)
    if principal is None or host is None:
        return None
    return Author(principal.decode("utf-8", "replace"), host.decode("utf-8", "replace"))


def _signed_name(own: Mapping[uuid.UUID, str], asked: object) -> str | None:
    """Which of `SIGNED` it is for, by its name or, from version 13 on, by its id."""
    given = getattr(asked, "topic_id", None)
    name = getattr(asked, "name", None)
    if given is None:
        return name if name in SIGNED else None
    return own.get(given)


class _Signature:
    """An author's, under one batch: the first for a topic's one partition, however often it is named."""

    def __init__(self, author: Author) -> None:
        self._author = author
        self._is_given = False

    def topic(self, asked: Message) -> Message:
        parts = getattr(asked, "partition_data", ())
        return replace(asked, partition_data=tuple(map(self._part, parts)))

    def _part(self, part: Message) -> Message:
        data = getattr(part, "records", None) or b""
        is_first = not self._is_given and getattr(part, "index", None) == 0
        self._is_given = self._is_given or is_first
        return replace(part, records=signed_batch(data, self._author) if is_first else b"")


def signed_batch(data: bytes, author: Author) -> bytes:
    """The batch with the author's headers and no other of their names; nothing: it is too large."""
    try:
        # By its header first: to look at each of very many records takes seconds.
        if len(data) > BYTES_MAX or batches.read_header(data).record_count > RECORDS_MAX:
            return b""
        found = batches.validate_produced(
            data, payload_bytes_max=BYTES_MAX, headers_max=HEADERS_MAX
        ).header
    except PayloadTooLarge:
        return b""
    except RecordError:
        return data
    own = ((PRINCIPAL, author.principal.encode()), (HOST, author.host.encode()))
    return records.build(
        [each._replace(headers=(*_others(each.headers), *own)) for each in records.decode(data)],
        base_offset=found.base_offset,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        base_sequence=found.base_sequence,
        transactional=found.is_transactional,
        last_offset_delta=found.last_offset_delta,
    )


def _others(headers: records.Headers) -> records.Headers:
    return tuple(header for header in headers if header[0] not in (PRINCIPAL, HOST))
