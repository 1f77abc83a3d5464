"""How far an owner obeys tombstones: it says so beside its answers, and `headwater forget` waits for that.

    NAME.answers   key "\\0seen"   {"command":"\\0seen","id":"\\0seen","n":120}

All tombstones before offset 120 of the events are obeyed, and whatever the owner wrote before it obeyed them
lies before this record. Written under the claim, after taking over and after catching up. It has the shape of
an answer, so that owners of earlier versions take it for one; no aggregate's id begins with a zero.
"""

from __future__ import annotations

import msgspec

from headwater.client.cluster import Cluster, TopicPartition
from headwater.events import answers, partition_reader

ID = "\0seen"
KEY = ID.encode()


def record(end: int) -> tuple[bytes, bytes]:
    """That everything before this offset of the events is obeyed."""
    return KEY, answers.encode(answers.Line(ID, ID, end))


def seen(cluster: Cluster, place: TopicPartition, start: int) -> tuple[int, int]:
    """From `start` of the answers on: how far their owner has said to be, and where to look next."""
    said = 0
    first, end = partition_reader.ends(cluster, place)
    for found in partition_reader.pieces(cluster, place, max(first, start), end):
        for each in found:
            if each.key == KEY and each.value is not None:
                try:
                    said = max(said, answers.decode(each.value).n)
                except msgspec.MsgspecError:  # somebody else's
                    continue
    return said, end
