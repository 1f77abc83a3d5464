"""Events without the program's classes: for the command line and for Spark, which see JSON.

`Plain` is what every event of every aggregate has; `lift` gives old versions today's shape where the
aggregate, with its upcasters, is at hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from headwater.client.cluster import Cluster
from headwater.events import partition_reader, topics
from headwater.events.aggregate import AnyAggregate
from headwater.events.errors import BadTopic
from headwater.events.upcasters import Upcasts, untag


class Plain(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """An event as it lies in the log; see `codec`."""

    type: str
    id: str
    n: int
    command: str
    data: msgspec.Raw
    who: str = ""
    why: str = ""
    correlation: str = ""
    causation: str = ""


_decoder = msgspec.json.Decoder(Plain)
_encode = msgspec.json.Encoder().encode


def decode(value: bytes) -> Plain:
    return _decoder.decode(value)


def lifted(event: Plain, upcasts: Upcasts) -> tuple[str, bytes]:
    """Type and data of today."""
    if event.type not in upcasts.old:
        return untag(event.type)[0], bytes(event.data)
    name, data = upcasts.lift(event.type, msgspec.json.decode(event.data))
    return name, _encode(data)


def upcasts_of(aggregate: AnyAggregate) -> Upcasts:
    names = [each.__name__ for each in aggregate.events]
    return Upcasts(aggregate.name, names, aggregate.upcasters)


def history(cluster: Cluster, topic: str, id: str) -> Iterator[dict[str, Any]]:
    """All events of one aggregate, as they were written."""
    known = cluster.metadata([topic]).topics.get(topic)
    if known is None:
        raise BadTopic(f"there is no topic {topic!r}", hint="headwater topics list shows those")
    place = (topic, topics.partition_of(id, len(known.leaders)))
    end = partition_reader.ends(cluster, place)[1]
    # What is left of a history that lost its start can be looked at, and shows by `n` that it did.
    for chunk in partition_reader.read(cluster, place, 0, end, id.encode(), is_whole=False):
        lines = chunk.lines.splitlines()
        for line, offset, ms in zip(lines, chunk.offsets, chunk.times, strict=True):
            try:
                event = msgspec.structs.asdict(_decoder.decode(line))
            except msgspec.MsgspecError as error:
                raise BadTopic(
                    f"{topic}-{place[1]} offset {offset} is no event: {error}",
                    hint="history is for topics that headwater.events writes",
                ) from None
            at = datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
            yield {
                "at": at,
                **{name: value for name, value in event.items() if value != ""},
                "data": msgspec.json.decode(event["data"]),
                "partition": place[1],
                "offset": offset,
            }
