"""Where a receiver was when it ended: read back from the last records of its topic and of TOPIC.gaps.

Called by `bridge` at its start. Batches are stored one after the other, so only of the last one can some be
stored and some not (a topic has several partitions): at most `listening.TAKEN_MAX` sequences below the last
one of a session are looked at. That holds as long as the topic is not also written to by others, or less
than LOOKED_BACK records lie behind.
"""

from __future__ import annotations

from collections.abc import Iterable

from headwater.browse.errors import NotThere
from headwater.browse.log import Log
from headwater.browse.pages import page
from headwater.edges.multicast.listening import TAKEN_MAX
from headwater.edges.multicast.receiver import Gap, Joined
from headwater.edges.multicast.sessions import Resumed
from headwater.edges.multicast.stored import GAPS, Place, event_of, place_of

LOOKED_BACK = 4 * TAKEN_MAX


def resumed(log: Log, topic: str) -> dict[int, Resumed]:
    """Session → where to go on. Synchronous; a second at most."""
    places: list[Place] = []
    for partition in log.partitions(topic):
        found = page(log, topic, back=True, limit=LOOKED_BACK, partitions=[partition]).records
        places += [place for each in found if (place := place_of(each.headers)) is not None]
    try:
        beside = page(log, topic + GAPS, back=True, limit=LOOKED_BACK).records
    except NotThere:
        beside = []
    events = [event for each in beside if (event := event_of(each.value)) is not None]
    return folded(places, events)


def folded(places: Iterable[Place], events: Iterable[Joined | Gap]) -> dict[int, Resumed]:
    """Pure; in any order."""
    done: dict[int, set[int]] = {}
    last: dict[int, int] = {}
    first: dict[int, int] = {}
    for session, sequence in places:
        done.setdefault(session, set()).add(sequence)
        last[session] = max(last.get(session, 0), sequence)
    gaps: list[Gap] = []
    for event in events:
        if isinstance(event, Joined):
            first[event.session] = event.first
        else:
            gaps.append(event)
            last[event.session] = max(last.get(event.session, 0), event.last)
    found = {}
    for session in {*first, *last}:
        start = max(first.get(session, 1), last.get(session, 0) - TAKEN_MAX + 1)
        stored = done.get(session, set())
        for gap in gaps:
            if gap.session == session:
                stored |= set(range(max(gap.first, start), gap.last + 1))
        found[session] = _resumed(stored, start)
    return found


def _resumed(stored: set[int], start: int) -> Resumed:
    following = start
    while following in stored:
        following += 1
    return Resumed(following, sorted(each for each in stored if each > following))
