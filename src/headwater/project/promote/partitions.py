"""One partition from the log to Kafka, from where it stands; and all of them, several at a time.

Called by `job`. Each worker has connections of its own to both sides.

The batches of a partition, whole and in order, with those named that belong to aborted transactions.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from headwater.client import batches
from headwater.client.cluster import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    Cluster,
    Topic,
    TopicPartition,
)
from headwater.project.promote.comparison import Compared, compare
from headwater.project.promote.errors import CannotPromote, Diverged
from headwater.project.promote.journal import Journal
from headwater.project.promote.steps import Abort, Data, Gap, Stored, steps
from headwater.project.promote.writer import PartitionWriter

WORKERS = 8

Found = TypeVar("Found")
Tell = Callable[[int], None]
"""Is told how many offsets have been done."""


@dataclass(frozen=True)
class Stretch:
    """What a partition of the log holds."""

    place: TopicPartition
    start: int
    end: int

    @property
    def name(self) -> str:
        return f"{self.place[0]}-{self.place[1]}"


@dataclass
class Counted:
    """What will have to be written, or was."""

    records: int = 0
    bytes: int = 0
    gaps: int = 0
    """Offsets at which readers find nothing: markers and holes."""
    aborted: int = 0
    """Records of transactions that were aborted."""
    before: int = 0
    """Offsets before the log's start."""
    append_timed: tuple[str, ...] = ()
    """Topics with records whose time the broker gave."""

    def add(self, other: Counted) -> None:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


@dataclass(frozen=True)
class Sides:
    """How to reach both, for clients of one's own."""

    old: Mapping[str, str]
    new: Mapping[str, str]


def settled(cluster: Cluster, places: Iterable[TopicPartition]) -> list[Stretch]:
    """Where each partition begins, and the end of what no open transaction can still decide."""
    wanted = list(places)
    starts = cluster.list_offsets(dict.fromkeys(wanted, EARLIEST))
    ends = cluster.list_offsets(dict.fromkeys(wanted, LATEST), READ_COMMITTED)
    return [Stretch(place, starts[place], ends[place]) for place in wanted]


def stretches(cluster: Cluster, places: Iterable[TopicPartition]) -> list[Stretch]:
    """Where each partition begins and ends. CannotPromote if a transaction is still open."""
    wanted = list(places)
    starts = cluster.list_offsets(dict.fromkeys(wanted, EARLIEST))
    ends = cluster.list_offsets(dict.fromkeys(wanted, LATEST))
    stable = cluster.list_offsets(dict.fromkeys(wanted, LATEST), READ_COMMITTED)
    for topic, number in wanted:
        if stable[topic, number] < ends[topic, number]:
            raise CannotPromote(
                f"a transaction is open in {topic}-{number}, from offset {stable[topic, number]} on",
                hint="let who began it end it: headwater up, then Ctrl-C; or wait 15 minutes, in which "
                "the broker ends it (headwater broker), and try again",
            )
    return [Stretch(place, starts[place], ends[place]) for place in wanted]


def is_ours(journal: Journal, new: Cluster, topic: Topic) -> bool:
    """Whether an earlier run has made this topic of the new cluster."""
    begun = journal.topics.get(topic.name)
    if begun is None:
        return False
    if begun["new"]:
        return begun["new"] == str(topic.id)
    # Made, and killed before its id was noted: then nothing can be in it.
    places = [(topic.name, number) for number in topic.leaders]
    empty = not any(stretch.end for stretch in stretches(new, places))
    if empty:
        begun["new"] = str(topic.id)
    return empty


def count(cluster: Cluster, stretch: Stretch) -> Counted:
    """What moving it would take; reads all of it, writes nothing."""
    found = Counted(before=stretch.start)
    stored = _noting(read(cluster, stretch.place, stretch.start, stretch.end), stretch, found)
    for step in steps(stored, stretch.start, stretch.end):
        _count(step, found)
    return found


def _noting(stored: Iterable[Stored], stretch: Stretch, found: Counted) -> Iterator[Stored]:
    for each in stored:
        if each.header.is_log_append_time:
            found.append_timed = (stretch.place[0],)
        yield each


def _count(step: Data | Gap | Abort, found: Counted) -> None:
    if isinstance(step, Data):
        found.records += step.count
        found.bytes += len(step.batch)
        found.aborted += step.count if step.producer is not None else 0
    else:
        found.gaps += step.count


def copy(sides: Sides, stretch: Stretch, tell: Tell) -> Counted:
    """Bring the new partition from where it is to the end of the old one. Diverged if it cannot be."""
    old, new = Cluster(sides.old), Cluster(sides.new)
    try:
        writer = PartitionWriter(new, stretch.place)
        position, counted = writer.end(), Counted()
        if position > 0:
            writer.fence()
            position = writer.end()
            _check_begun(old, new, stretch, position)
        if position < stretch.start:
            counted.before = stretch.start - position
            writer.fill(position, counted.before)
            position = stretch.start
        tell(position)
        for step in steps(read(old, stretch.place, position, stretch.end), position, stretch.end):
            writer.write(step)
            _count(step, counted)
            tell(step.count)
        writer.flush()
        if writer.has_open:
            raise CannotPromote(
                f"{stretch.name}: an aborted transaction ends behind one that is still open",
                hint="try again when that one has ended",
            )
        return counted
    finally:
        old.close()
        new.close()


def _check_begun(old: Cluster, new: Cluster, stretch: Stretch, position: int) -> None:
    if position > stretch.end:
        raise Diverged(f"{stretch.name} is longer in Kafka than in the log")
    if new.list_offsets({stretch.place: EARLIEST})[stretch.place] > stretch.start:
        raise Diverged(f"{stretch.name} begins later in Kafka, which has its retention already")
    found = compare(
        read(old, stretch.place, stretch.start, position),
        read(new, stretch.place, stretch.start, position),
        stretch.start,
        position,
    )
    if found.difference is not None:
        raise Diverged(f"{stretch.name}: {found.difference}")


def check(sides: Sides, stretch: Stretch, tell: Tell) -> Compared:
    """Compare the two whole partitions."""
    old, new = Cluster(sides.old), Cluster(sides.new)
    try:
        ends = {where: new.list_offsets({stretch.place: where}) for where in (EARLIEST, LATEST)}
        found = ends[EARLIEST][stretch.place], ends[LATEST][stretch.place]
        if found != (stretch.start, stretch.end):
            return Compared(
                difference=f"it is from {stretch.start} to {stretch.end}, and in Kafka from "
                f"{found[0]} to {found[1]}"
            )
        span = (stretch.start, stretch.end)
        noted = Counted()
        ours = _noting(read(old, stretch.place, *span), stretch, noted)
        compared = compare(ours, read(new, stretch.place, *span), *span)
        compared.append_timed = noted.append_timed
        tell(stretch.end)
        return compared
    finally:
        old.close()
        new.close()


def side_by_side(
    work: Callable[[Sides, Stretch, Tell], Found], sides: Sides, todo: list[Stretch], tell: Tell
) -> list[Found]:
    """`work` for every partition, some at a time; the first failure ends all. `tell` hears the sum."""
    lock, done, over = threading.Lock(), 0, threading.Event()

    def more(offsets: int) -> None:
        nonlocal done
        if over.is_set():
            raise CannotPromote("interrupted")  # nobody hears it: the first failure is told
        with lock:
            done += offsets
            tell(done)

    with ThreadPoolExecutor(WORKERS) as pool:
        running = [pool.submit(work, sides, each, more) for each in todo]
        try:
            return [each.result() for each in running]
        except BaseException:
            over.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


_BYTES_MAX = 8 << 20


def read(cluster: Cluster, place: TopicPartition, start: int, end: int) -> Iterator[Stored]:
    """Batches that hold offsets from `start` up to, not including, `end`; markers among them."""
    for batch in batches.read(cluster, place, start, end, bytes_max=_BYTES_MAX):
        batch.check()
        yield Stored(batch.header, batch.raw(), batch.is_aborted)
