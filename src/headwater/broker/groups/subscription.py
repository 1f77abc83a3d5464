"""Which topics a member of a `consumer` group subscribes to, read from its JoinGroup metadata.

`ClassicGroup` asks, so that offsets of subscribed topics are neither deleted nor expired. We
otherwise treat this metadata as opaque. Only the part that all versions share is read (KIP-429):

    version int16 | topics: count int32, each int16 length and UTF-8 | … later versions add more
"""

from __future__ import annotations

from collections.abc import Iterable

from headwater.broker.groups.cursor import BadRecord, Cursor

CONSUMER = "consumer"


def topics_of(metadata: bytes) -> frozenset[str]:
    """The subscribed topics; raises `BadRecord` for bytes that are not a subscription."""
    cursor = Cursor(metadata)
    if cursor.i16() < 0:
        raise BadRecord("a subscription of negative version")
    return frozenset([cursor.string() for _ in range(cursor.count())])


def topics_of_all(metadatas: Iterable[bytes]) -> frozenset[str] | None:
    """All members' topics together, or None if one of them cannot be understood."""
    try:
        return frozenset().union(*map(topics_of, metadatas))
    except BadRecord:
        return None
