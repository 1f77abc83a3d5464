"""Snapshots: the states of a partition at some offset, so that taking it over need not read all of it.

Records of the compacted topic NAME.snapshots, written by the owner under its claim:

    key  the aggregate's id    {"fold":"…","n":17,"state":{…}}   the state after its 17th event
    key  the aggregate's id    no value                          nothing is left of its events
    key  "\\0position"          {"fold":"…","offset":120000,       every aggregate that had an event before
                                "checked":true}                   that offset has a record with all of them

Never the truth: with another fold (`Aggregate.fingerprint`), a missing position or a gap, all of them
are ignored and the events are read from the start. Deleting the topic's records costs time, nothing else.

Invariant: a state must be written only if it comes back equal from its JSON; `checked` says so. Snapshots of
earlier versions, which did not look, are used only where the events before them are gone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import msgspec

from headwater.client.cluster import Cluster
from headwater.events import models, partition_reader
from headwater.events.aggregate import Aggregate
from headwater.events.errors import BadDefinition
from headwater.events.ledger import Draft, Held, Ledger

logger = logging.getLogger("headwater.events")
POSITION = b"\0position"
_BATCH_BYTES = 512 << 10


class _Snapshot(msgspec.Struct, frozen=True):
    fold: str
    n: int
    state: msgspec.Raw


class _Position(msgspec.Struct, frozen=True):
    fold: str
    offset: int
    checked: bool = False


_snapshot = msgspec.json.Decoder(_Snapshot)
_position = msgspec.json.Decoder(_Position)


class Snapshots:
    """Of one partition: what changed since the last time, and the records that say how it is now."""

    def __init__(self, aggregate: Aggregate[Any], partition: int, every: int) -> None:
        self._aggregate = aggregate
        self._partition = partition
        self._every = every if aggregate.fingerprint else 0
        if every and not self._every:
            logger.warning(
                "%s: no snapshots, as its code cannot be looked into; give Aggregate(fold=1), and raise it "
                "whenever apply or an upcaster means something else",
                aggregate.name,
            )
        self._dirty: set[str] = set()
        self._writing: set[str] = set()
        """On their way: changed, until the position behind them is on disk."""
        self._events = 0
        self._encoder = msgspec.json.Encoder(enc_hook=models.encode)
        self._decoder = self._decoder_of_states() if self._every else None

    def _decoder_of_states(self) -> msgspec.json.Decoder[Any]:
        kind = self._aggregate.state or type(self._aggregate.initial)
        try:
            found: msgspec.json.Decoder[Any] = msgspec.json.Decoder(kind, dec_hook=models.decode)
            found.decode(self._encoder.encode(self._aggregate.initial))
            return found
        except (TypeError, NotImplementedError, msgspec.MsgspecError) as error:
            raise BadDefinition(
                f"the state of {self._aggregate.name} cannot be read back from JSON: {error}",
                hint="give Aggregate(state=…) a type that can, or open with snapshot_every=0",
            ) from None

    @property
    def due(self) -> bool:
        return 0 < self._every <= self._events

    def touched(self, draft: Draft) -> None:
        """These events are on disk."""
        if self._every and draft.events:
            self._events += len(draft.events)
            self._dirty.update(id for id, _ in draft.undo)

    def replayed(self, ids: set[str], events: int) -> None:
        """So many events were read that no snapshot covers."""
        if self._every:
            self._dirty |= ids
            self._events += events

    def dropped(self, id: str) -> None:
        """Its state is not what it was: a tombstone was found among the events."""
        if self._every:
            self._dirty.add(id)

    def records(self, ledger: Ledger) -> Iterator[list[tuple[bytes, bytes | None]]]:
        """Batches of records; the ledger must hold nothing that is not on disk."""
        batch: list[tuple[bytes, bytes | None]] = []
        size = 0
        fold = self._aggregate.fingerprint
        for id in self._dirty:
            value = self._value(fold, ledger.held.get(id))
            batch.append((id.encode(), value))
            size += len(value or b"")
            if size > _BATCH_BYTES:
                yield batch
                batch, size = [], 0
        position = _Position(fold, ledger.next_offset, True)
        yield [*batch, (POSITION, self._encoder.encode(position))]
        self._writing |= self._dirty
        self._dirty, self._events = set(), 0

    def _value(self, fold: str, held: Held[Any] | None) -> bytes | None:
        if held is None:
            return None
        raw = self._encoder.encode(held.state)
        assert self._decoder is not None, "snapshots are on"
        found = self._decoder.decode(raw)
        if not models.whole(found, held.state):
            raise BadDefinition(
                f"a state of {self._aggregate.name} does not come back as it was from JSON",
                hint="give Aggregate(state=…) a type that does (dict[int, bool] for keys that are numbers), "
                "and keep nothing in it that is not written: private attributes, fields that are left out",
            )
        return self._encoder.encode(_Snapshot(fold, held.version, msgspec.Raw(raw)))

    def landed(self) -> None:
        """Everything is on disk."""
        self._writing.clear()

    def failed(self) -> None:
        """What was on its way may not have arrived: it counts as changed."""
        self._dirty |= self._writing
        self._writing.clear()

    def disable(self) -> None:
        self._every = 0
        self._dirty.clear()
        self._writing.clear()

    def load(
        self, cluster: Cluster, end: int | None = None, only: bytes | None = None
    ) -> tuple[dict[str, Held[Any]], int]:
        """States (all, or one), and the offset from which on to read events.

        Nothing, and 0, where they do not fit.
        """
        nothing: tuple[dict[str, Held[Any]], int] = ({}, 0)
        if self._decoder is None:
            return nothing
        latest: dict[bytes, bytes] = {}
        place = (self._aggregate.snapshots, self._partition)
        start, last = partition_reader.ends(cluster, place)
        for found in partition_reader.pieces(cluster, place, start, last if end is None else end):
            for record in found:
                if record.key is None:  # not one of ours: a compacted topic takes none
                    continue
                if only is not None and record.key not in (only, POSITION):
                    continue
                if record.value is None:
                    latest.pop(record.key, None)
                else:
                    latest[record.key] = record.value
        fold, said = self._aggregate.fingerprint, latest.pop(POSITION, None)
        try:
            if said is None or (position := _position.decode(said)).fold != fold:
                return nothing
            if not position.checked and self._has_all_events(cluster):
                return nothing
            held: dict[str, Held[Any]] = {}
            for key, value in latest.items():
                snapshot = _snapshot.decode(value)
                if snapshot.fold != fold:
                    return nothing
                held[key.decode()] = Held(self._decoder.decode(snapshot.state), snapshot.n)
        except Exception:  # whatever is wrong with one of them: the events say it all
            return nothing
        return held, position.offset

    def _has_all_events(self, cluster: Cluster) -> bool:
        return partition_reader.ends(cluster, (self._aggregate.name, self._partition))[0] == 0
