"""From the log to a ledger: what an owner reads when it has claimed its partition. Blocking; in a thread.

A new owner starts with the snapshots, or with nothing; one that claims again, after a failure, knows
everything up to some offset already. Both then read the rest of the events, and the last answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from headwater.events import answers, collector, fence, reading
from headwater.events.answers import Accepted, Answer, Refused
from headwater.events.claim import Claim
from headwater.events.commands import Asked
from headwater.events.errors import EventsError
from headwater.events.ledger import KEEP_MS, SKEW_MS, Decision, Ledger
from headwater.events.snapshots import Snapshots
from headwater.spark.connect import Cluster


class Restored(NamedTuple):
    """A claim, and the ledger that holds all that was decided before it."""

    claim: Claim
    ledger: Ledger


def restore(
    cluster: Cluster, claim: Claim, ledger: Ledger, snapshots: Snapshots, now_ms: int
) -> Restored:
    """Bring the ledger up to the claim."""
    aggregate, partition = ledger.aggregate, ledger.partition
    ledger.cleared.clear()  # another owner may have decided them since
    end = claim.ends[aggregate.name]
    if ledger.next_offset == 0:
        held, start = snapshots.load(cluster, claim.ends[aggregate.snapshots])
        ledger.held = held
        _remember_before(cluster, ledger, start, end, now_ms)
        try:
            _replay(cluster, ledger, snapshots, start, end, is_whole=not start)
        except EventsError:
            if not start:
                raise
            # The snapshots do not fit to the events: without them, then.
            ledger = Ledger(aggregate, partition, ledger.codec, ledger.window)
            _replay(cluster, ledger, snapshots, 0, end)
    else:
        _replay(cluster, ledger, snapshots, ledger.next_offset, end)
    _remember_answers(cluster, ledger, claim.ends[aggregate.answers])
    ledger.next_offset = end
    return Restored(claim, ledger)


def _replay(
    cluster: Cluster,
    ledger: Ledger,
    snapshots: Snapshots,
    start: int,
    end: int,
    is_whole: bool = True,
) -> None:
    place = (ledger.aggregate.name, ledger.partition)
    if start:
        _drop_buried(cluster, ledger, snapshots, start, end)
    for chunk in reading.read(cluster, place, start, end):
        events = ledger.codec.decode(chunk.lines, len(chunk.offsets))
        if ledger.remembered_from_ms:
            ledger.remembered_from_ms = min(ledger.remembered_from_ms, chunk.times[0])
        ledger.replay(events, chunk.offsets, chunk.times, is_whole=is_whole)
        snapshots.replayed({each.id for each in events}, len(events))


def _drop_buried(
    cluster: Cluster, ledger: Ledger, snapshots: Snapshots, start: int, end: int
) -> None:
    """Whose tombstones are there (`headwater forget`): what is known of them must be read anew."""
    place = (ledger.aggregate.name, ledger.partition)
    for key in reading.tombstones(cluster, place, start, end) - {fence.KEY}:
        ledger.drop(key.decode(), _left(cluster, ledger, key, start))
        snapshots.dropped(key.decode())


def _left(cluster: Cluster, ledger: Ledger, key: bytes, end: int) -> list[Any]:
    """The events that the log still has of an aggregate."""
    found: list[Any] = []
    place = (ledger.aggregate.name, ledger.partition)
    for chunk in reading.read(cluster, place, 0, end, key):
        found += ledger.codec.decode(chunk.lines, len(chunk.offsets))
    return found


def find_buried(
    settings: Mapping[str, str], ledger: Ledger, end: int
) -> dict[str, list[Any]] | None:
    """Whose tombstones are behind what an owner knows, and what is left of their events.

    None where anything else is there: then another owner claims, which the next batch will show.
    """
    place, start = (ledger.aggregate.name, ledger.partition), ledger.next_offset
    cluster = Cluster(settings)
    try:
        if not fence.only_tombstones(cluster, place, start, end):
            return None
        keys = reading.tombstones(cluster, place, start, end)
        if fence.KEY in keys:
            return None
        return {key.decode(): _left(cluster, ledger, key, end) for key in keys}
    finally:
        cluster.close()


def _remember_before(cluster: Cluster, ledger: Ledger, start: int, end: int, now_ms: int) -> None:
    """The commands of the last events that the snapshots spare us: only who decided what."""
    place = (ledger.aggregate.name, ledger.partition)
    log_start = reading.ends(cluster, place)[0]
    lately = reading.at_time(cluster, place, now_ms - KEEP_MS)
    first = min(max(log_start, min(lately, end - ledger.window)), start)
    if first > log_start:
        ledger.remembered_from_ms = now_ms
    for chunk in reading.read(cluster, place, first, min(start, end)):
        ledger.remembered_from_ms = min(ledger.remembered_from_ms, chunk.times[0])
        ledger.last_ms = max(ledger.last_ms, chunk.times[-1])
        events = ledger.codec.decode(chunk.lines, len(chunk.offsets))
        ledger.remember_events(events, chunk.offsets, chunk.times)


def _remember_answers(cluster: Cluster, ledger: Ledger, end: int) -> None:
    place = (ledger.aggregate.answers, ledger.partition)
    first = reading.ends(cluster, place)[0]
    start = max(first, ledger.next_answer or end - ledger.window)
    cut = start > max(first, ledger.next_answer)
    for chunk in reading.read(cluster, place, start, end):
        if cut:
            ledger.remembered_from_ms = max(ledger.remembered_from_ms, chunk.times[0])
            cut = False
        ledger.remember_lines(answers.decode_lines(chunk.lines), chunk.times)
    ledger.next_answer = end


def find_decisions(
    settings: Mapping[str, str], ledger: Ledger, asked: Sequence[Asked]
) -> dict[Decision, Answer]:
    """Which of these commands the log has an answer to, however long ago."""
    wanted = {(each.id, each.command_id) for each in asked}
    since = min(each.sent_ms for each in asked) - SKEW_MS
    found: dict[Decision, Answer] = {}
    name, partition = ledger.aggregate.name, ledger.partition
    cluster = Cluster(settings)
    try:
        for chunk in _since(cluster, (name, partition), since):
            for event, offset in zip(_decided(chunk), chunk.offsets, strict=True):
                if (decision := (event.id, event.command)) in wanted:
                    last = found.get(decision)
                    count = 1 + (last.events if isinstance(last, Accepted) else 0)
                    found[decision] = Accepted(
                        name, partition, event.id, event.n, count, offset + 1
                    )
        for chunk in _since(cluster, (ledger.aggregate.answers, partition), since):
            for line in answers.decode_lines(chunk.lines):
                if (decision := (line.id, line.command)) not in wanted:
                    continue
                if line.refused is not None:
                    found[decision] = Refused(line.refused, line.kind)
                else:
                    found[decision] = Accepted(
                        name, partition, line.id, line.n, 0, ledger.next_offset
                    )
    finally:
        cluster.close()
    return found


class _Decided(msgspec.Struct, frozen=True, gc=False):
    """Of an event, all that says which command it follows from; whatever its type."""

    id: str
    n: int
    command: str


_decoder = msgspec.json.Decoder(_Decided)


def _decided(chunk: reading.Chunk) -> list[_Decided]:
    with collector.resting():
        return _decoder.decode_lines(chunk.lines)


def _since(cluster: Cluster, place: tuple[str, int], since: int) -> Iterator[reading.Chunk]:
    start, end = reading.at_time(cluster, place, since), reading.ends(cluster, place)[1]
    return reading.read(cluster, place, start, end)
