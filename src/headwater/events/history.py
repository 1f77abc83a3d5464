"""Looking at what happened, from any process: states of now and of then, and histories to be read.

    reader = Reader(accounts, "127.0.0.1:9092")
    reader.state("alice")                        now, from the snapshot and what came behind it
    reader.as_of("alice", yesterday)             as it was at any earlier moment
    print(reader.history("alice"))               who did what, when and why
    for events in reader.replay(): …             everything, from any position on, at full speed

Reads committed events; owns nothing, writes nothing. Blocking. A list of one aggregate needs a look at
all events of its partition: there is no index by key in a log.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

import msgspec

from headwater.client import cluster
from headwater.client.cluster import Cluster
from headwater.client.position import Position
from headwater.events import models, partition_reader, topics
from headwater.events import options as clients
from headwater.events.aggregate import Aggregate
from headwater.events.codec import Codec, correlation_of
from headwater.events.errors import BadTopic, EventsError
from headwater.events.excision_audit import ExcisionAudit, gap
from headwater.events.ledger import Held
from headwater.events.snapshots import Snapshots

State = TypeVar("State")
_OTHER_CLOCKS_MS = 86_400_000


@dataclass(frozen=True)
class Entry:
    """One event of a history."""

    offset: int
    at: datetime
    n: int
    event: object
    command: str
    who: str
    why: str
    correlation: str
    causation: str

    def __str__(self) -> str:
        said = f"{self.at:%Y-%m-%d %H:%M:%S}  {self.n:>5}  {described(self.event)}"
        said += f"  by {self.who}" if self.who else ""
        return said + (f"  because {self.why}" if self.why else "")


class History(list[Entry]):
    """Prints as one line for each event."""

    def __str__(self) -> str:
        return "\n".join(map(str, self))


def described(event: Any) -> str:
    """An event in one line: its class, and its fields."""
    fields = msgspec.to_builtins(event, enc_hook=models.encode)
    spelled = ", ".join(f"{name}={value}" for name, value in fields.items())
    return f"{type(event).__name__}({spelled})"


class Reader(Generic[State]):
    """Of one aggregate type."""

    def __init__(
        self, aggregate: Aggregate[State], bootstrap: str, client: clients.Client = None
    ) -> None:
        self.aggregate = aggregate
        self._codec = Codec(aggregate)
        self._cluster = Cluster(clients.for_cluster(bootstrap, client))
        self._count = 0

    def __enter__(self) -> Reader[State]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._cluster.close()

    # ---- one aggregate --------------------------------------------------------------------------

    def state(self, id: str, *, snapshots: bool = True) -> State:
        """As it is now."""
        return self.held(id, snapshots=snapshots).state

    def held(self, id: str, *, snapshots: bool = True) -> Held[State]:
        """State and version."""
        held, start = Held(self.aggregate.initial, 0), 0
        partition = self._partition(id)
        if snapshots:
            snapped = Snapshots(self.aggregate, partition, 1)
            found, start = snapped.load(self._cluster, only=id.encode())
            held = found.get(id, held)
        end = partition_reader.ends(self._cluster, self._place(id))[1]
        try:
            return self._folded(id, held, start, end)
        except EventsError:
            if not start:
                raise
            # The snapshot does not fit to the events: without it, then.
            return self._folded(id, Held(self.aggregate.initial, 0), 0, end)

    def as_of(self, id: str, when: datetime | int) -> State:
        """As it was at that moment (milliseconds, or a time that knows its zone)."""
        ms = when if isinstance(when, int) else int(when.timestamp() * 1000)
        # The events' times never go back; those of other records (tombstones) may be of other clocks.
        end = partition_reader.at_time(self._cluster, self._place(id), ms + _OTHER_CLOCKS_MS)
        held = self._folded(id, Held(self.aggregate.initial, 0), 0, end, ms)
        return held.state

    def history(self, id: str, until: int | None = None) -> History:
        """Everything that happened to it, in order."""
        found = History()
        end = partition_reader.ends(self._cluster, self._place(id))[1] if until is None else until
        for chunk in partition_reader.read(self._cluster, self._place(id), 0, end, id.encode()):
            for each, offset, ms in zip(
                self._codec.decode(chunk.lines, len(chunk.offsets)),
                chunk.offsets,
                chunk.times,
                strict=True,
            ):
                at = datetime.fromtimestamp(ms / 1000, UTC)
                found.append(
                    Entry(
                        *(offset, at, each.n, each.data, each.command),
                        *(each.who, each.why, correlation_of(each), each.causation),
                    )
                )
        return found

    def _folded(
        self, id: str, held: Held[State], start: int, end: int, until_ms: int | None = None
    ) -> Held[State]:
        state, version = held
        apply, place = self.aggregate.apply, self._place(id)
        audit = ExcisionAudit(self._cluster, place)
        for chunk in partition_reader.read(self._cluster, place, start, end, id.encode()):
            events = self._codec.decode(chunk.lines, len(chunk.offsets))
            if until_ms is not None:
                events = events[: bisect_right(chunk.times, until_ms)]
            for each, offset in zip(events, chunk.offsets, strict=False):
                if each.n <= version:
                    continue  # a snapshot is ahead
                if each.n != version + 1 and (start or not audit.explains(id, offset)):
                    raise gap(*place, id, offset, each.n, version)
                state = apply(state, each.data)
                version = each.n
        return Held(state, version)

    # ---- all of them ----------------------------------------------------------------------------

    def replay(self, start: Position | None = None) -> Iterator[tuple[Position, list[object]]]:
        """Lists of events (with `id`, `n`, `data`, …), each with the position behind it.

        Partition after partition, up to the end of now. What is done with a list, and the position,
        should be stored together: then whatever was replayed can go on from there.
        """
        name = self.aggregate.name
        at = dict((start or Position()).offsets.get(name, {}))
        for partition in range(self._partitions()):
            end = partition_reader.ends(self._cluster, (name, partition))[1]
            begin = at.get(partition, 0)
            for chunk in partition_reader.read(self._cluster, (name, partition), begin, end):
                at[partition] = chunk.offsets[-1] + 1
                events = self._codec.decode(chunk.lines, len(chunk.offsets))
                yield Position({name: dict(at)}), events

    def end(self) -> Position:
        """The position behind everything that is committed now."""
        name = self.aggregate.name
        places = {(name, p): cluster.LATEST for p in range(self._partitions())}
        found = self._cluster.list_offsets(places, cluster.READ_COMMITTED)
        return Position({name: {p: offset for (_, p), offset in found.items()}})

    # ---- where ----------------------------------------------------------------------------------

    def _partitions(self) -> int:
        deadline = time.monotonic() + 10
        while not self._count:
            found = self._cluster.metadata([self.aggregate.name]).topics
            if self.aggregate.name in found:
                self._count = len(found[self.aggregate.name].leaders)
            elif time.monotonic() > deadline:
                raise BadTopic(
                    f"there is no topic {self.aggregate.name!r}",
                    hint="the first application that opens the aggregate makes it",
                )
            else:
                time.sleep(0.05)
        return self._count

    def _partition(self, id: str) -> int:
        return topics.partition_of(id, self._partitions())

    def _place(self, id: str) -> tuple[str, int]:
        return self.aggregate.name, self._partition(id)
