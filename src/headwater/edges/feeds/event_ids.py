"""How far a client of a changefeed is, as the id of the last event that it has: `0=17,1=4`. Pure.

An id names the next offset of every partition. A client that comes back with it (`Last-Event-ID`, or
`?after=`) gets what is behind it: no record twice, none left out. What is not named in it is read from the
beginning, so that a partition that was added meanwhile is not missed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from headwater.client.errors import BadRequest, NotThere
from headwater.client.records import Range

_ID = re.compile(r"\d{1,9}=\d{1,18}(?:,\d{1,9}=\d{1,18})*")
LENGTH_MAX = 32_768
"""Some two thousand partitions; the header of a request is not larger."""

Offsets = dict[int, int]


def text_of(offsets: Mapping[int, int]) -> str:
    if len(offsets) == 1:
        ((partition, offset),) = offsets.items()
        return f"{partition}={offset}"
    return ",".join(f"{partition}={offset}" for partition, offset in sorted(offsets.items()))


def parse(text: str) -> Offsets:
    """Raises Misunderstood for what no changefeed has given out."""
    if len(text) > LENGTH_MAX or not _ID.fullmatch(text):
        raise BadRequest(
            f"{text[:80]!r} is no event id",
            hint="give an id as an event had it, such as 0=17,1=4; or none, to start over",
        )
    pairs = [part.split("=") for part in text.split(",")]
    offsets = {int(partition): int(offset) for partition, offset in pairs}
    if len(offsets) < len(pairs):
        raise BadRequest(f"{text[:80]!r} names a partition twice", hint="start over without it")
    return offsets


def placed(topic: str, asked: Mapping[int, int], held: Mapping[int, Range]) -> Offsets:
    """The asked offsets, one for each partition that there is; NotThere if the topic is not that long."""
    for partition, offset in asked.items():
        end = held[partition][1] if partition in held else None
        if end is None or offset > end:
            there = "has no such partition" if end is None else f"ends at {partition}={end}"
            raise NotThere(
                f"{topic} {there}, and the id says {partition}={offset}",
                hint="the topic was recreated since: begin without an id",
            )
    return {partition: asked.get(partition, 0) for partition in held}


def lost(asked: Mapping[int, int], held: Mapping[int, Range]) -> dict[int, Range]:
    """What was after the asked offsets and is not kept any more: partition → offsets."""
    return {
        partition: (offset, held[partition][0])
        for partition, offset in asked.items()
        if partition in held and offset < held[partition][0]
    }
