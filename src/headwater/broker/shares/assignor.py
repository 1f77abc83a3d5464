"""The simple assignor of share groups (KIP-932): who reads which partition. Pure; `membership` calls it.

Every partition has a reader, and every member something to read if it can be: with more partitions
than members each partition goes to one member, with more members than partitions several share one.
Members and partitions are dealt out in order, so that a small change moves little.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

Assignment = dict[uuid.UUID, list[int]]


def assign(
    wanted: Mapping[str, Sequence[str]], topics: Mapping[str, tuple[uuid.UUID, int]]
) -> dict[str, Assignment]:
    """For each member its partitions; `wanted` says which topics it subscribes to."""
    result: dict[str, Assignment] = {member: {} for member in wanted}
    turn = 0
    for topic in sorted(topics):
        topic_id, count = topics[topic]
        members = sorted(member for member in wanted if topic in wanted[member])
        if not members or not count:
            continue
        for number in range(max(count, len(members))):
            # Go on dealing where the last topic stopped, or the first members would get it all.
            member = members[(turn + number) % len(members)]
            held = result[member].setdefault(topic_id, [])
            if number % count not in held:
                held.append(number % count)
        turn += count
    for assignment in result.values():
        for numbers in assignment.values():
            numbers.sort()
    return result
