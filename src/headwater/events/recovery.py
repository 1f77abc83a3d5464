"""From the log to a ledger: what an owner reads when it has claimed its partition. Blocking; in a thread.

A new owner starts with the snapshots, or with nothing; one that claims again, after a failure, knows
everything up to some offset already. Both then read the rest of the events, and the last answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from headwater.client.cluster import Cluster
from headwater.events import answers, codec, fence, partition_reader
from headwater.events.answers import Accepted
from headwater.events.claim import Claim
from headwater.events.commands import Asked
from headwater.events.errors import EventsError
from headwater.events.excision_audit import ExcisionAudit
from headwater.events.ledger import KEEP_MS, SKEW_MS, Decision, Known, Ledger
from headwater.events.snapshots import Snapshots


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
            _replay(cluster, ledger, snapshots, start, end, has_all=not start)
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
    has_all: bool = True,
) -> None:
    """`has_all`: the ledger holds all that was before; else a hole may be a snapshot that is missing."""
    place = (ledger.aggregate.name, ledger.partition)
    audit = ExcisionAudit(cluster, place)
    if start:
        _drop_buried(cluster, ledger, snapshots, start, end)
    for chunk in partition_reader.read(cluster, place, start, end):
        events = ledger.codec.decode(chunk.lines, len(chunk.offsets))
        if ledger.remembered_from_ms:
            ledger.remembered_from_ms = min(ledger.remembered_from_ms, chunk.times[0])
        ledger.replay(
            events,
            chunk.offsets,
            chunk.times,
            is_excised=lambda id, offset: has_all and audit.explains(id, offset),
        )
        snapshots.replayed({each.id for each in events}, len(events))


def _drop_buried(
    cluster: Cluster, ledger: Ledger, snapshots: Snapshots, start: int, end: int
) -> None:
    """Whose tombstones are there (`headwater forget`): what is known of them must be read anew."""
    place = (ledger.aggregate.name, ledger.partition)
    keys = partition_reader.tombstones(cluster, place, start, end) - {fence.KEY}
    for id, key in _ids(keys):
        ledger.drop(id, _left(cluster, ledger, key, start))
        snapshots.dropped(id)


def _ids(keys: Iterable[bytes]) -> Iterator[tuple[str, bytes]]:
    """The aggregates of these keys; a key that is no text is none's."""
    for key in keys:
        try:
            yield key.decode(), key
        except UnicodeDecodeError:
            continue


def _left(cluster: Cluster, ledger: Ledger, key: bytes, end: int) -> list[Any]:
    """The events that the log still has of an aggregate."""
    found: list[Any] = []
    place = (ledger.aggregate.name, ledger.partition)
    for chunk in partition_reader.read(cluster, place, 0, end, key, is_whole=False):
        found += ledger.codec.decode(chunk.lines, len(chunk.offsets))
    return found


def find_buried(
    settings: Mapping[str, str], ledger: Ledger, end: int
) -> dict[str, list[Any]] | None:
    """Whose tombstones are behind what an owner knows, and what is left of their events.

    None where anything else is there: then another owner claims, and the next batch is refused.
    """
    place, start = (ledger.aggregate.name, ledger.partition), ledger.next_offset
    cluster = Cluster(settings)
    try:
        if not fence.only_tombstones(cluster, place, start, end):
            return None
        keys = partition_reader.tombstones(cluster, place, start, end)
        if fence.KEY in keys:
            return None
        return {id: _left(cluster, ledger, key, end) for id, key in _ids(keys)}
    finally:
        cluster.close()


def _remember_before(cluster: Cluster, ledger: Ledger, start: int, end: int, now_ms: int) -> None:
    """The commands of the last events that the snapshots spare us: only who decided what."""
    place = (ledger.aggregate.name, ledger.partition)
    log_start = partition_reader.ends(cluster, place)[0]
    lately = partition_reader.at_time(cluster, place, now_ms - KEEP_MS)
    first = min(max(log_start, min(lately, end - ledger.window)), start)
    if first > log_start:
        ledger.remembered_from_ms = now_ms
    for chunk in partition_reader.read(cluster, place, first, min(start, end)):
        ledger.remembered_from_ms = min(ledger.remembered_from_ms, chunk.times[0])
        ledger.last_ms = max(ledger.last_ms, chunk.times[-1])
        events = ledger.codec.decode(chunk.lines, len(chunk.offsets))
        ledger.remember_events(events, chunk.offsets, chunk.times)


def _remember_answers(cluster: Cluster, ledger: Ledger, end: int) -> None:
    place = (ledger.aggregate.answers, ledger.partition)
    first = partition_reader.ends(cluster, place)[0]
    start = max(first, ledger.next_answer or end - ledger.window)
    cut = start > max(first, ledger.next_answer)
    for chunk in partition_reader.read(cluster, place, start, end, is_whole=False):
        if cut:
            ledger.remembered_from_ms = max(ledger.remembered_from_ms, chunk.times[0])
            cut = False
        ledger.remember_lines(answers.decode_lines(chunk.lines), chunk.times)
    ledger.next_answer = end


def find_decisions(
    settings: Mapping[str, str], ledger: Ledger, asked: Sequence[Asked]
) -> dict[Decision, Known]:
    """Which of these commands the log has an answer to, however long ago."""
    wanted = {(each.id, each.command_id) for each in asked}
    wanted |= {(each.id, each.former) for each in asked if each.former}
    since = min(each.sent_ms for each in asked) - SKEW_MS
    found: dict[Decision, Known] = {}
    name, partition = ledger.aggregate.name, ledger.partition
    cluster = Cluster(settings)
    try:
        for chunk in _since(cluster, (name, partition), since):
            for event, offset in zip(_decided(chunk), chunk.offsets, strict=True):
                if (decision := (event.id, event.command)) in wanted:
                    last = found[decision].answer if decision in found else None
                    count = 1 + (last.events if isinstance(last, Accepted) else 0)
                    answer = Accepted(name, partition, event.id, event.n, count, offset + 1)
                    found[decision] = Known(answer, 0, event.fingerprint)
        for chunk in _since(cluster, (ledger.aggregate.answers, partition), since):
            for line in answers.decode_lines(chunk.lines):
                if (decision := (line.id, line.command)) in wanted:
                    said = answers.of_line(line, name, partition, ledger.next_offset)
                    found[decision] = Known(said, 0, line.fingerprint)
    finally:
        cluster.close()
    return found


class _Decided(msgspec.Struct, frozen=True, gc=False):
    """Of an event, all that says which command it follows from; whatever its type."""

    id: str
    n: int
    command: str
    fingerprint: str = ""


_decoder = msgspec.json.Decoder(_Decided)


def _decided(chunk: partition_reader.Chunk) -> list[_Decided]:
    with codec.resting():
        return _decoder.decode_lines(chunk.lines)


def _since(
    cluster: Cluster, place: tuple[str, int], since: int
) -> Iterator[partition_reader.Chunk]:
    start, end = (
        partition_reader.at_time(cluster, place, since),
        partition_reader.ends(cluster, place)[1],
    )
    return partition_reader.read(cluster, place, start, end, is_whole=False)
