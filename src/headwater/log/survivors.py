"""What is left of a batch after compaction: Kafka's rules, applied to one batch after the other.

`compactor.compact` hands over every batch of the log in order, together with the map of newest
records, and writes what it gets back. Pure: bytes in, bytes out.

- A record survives if it is its key's newest. One without a key does not (Kafka does the same).
- A tombstone survives until `delete.retention.ms` after it was first met: then its batch gets bit 6
  of the attributes and the end of that time, the delete horizon, as base timestamp (KIP-534).
- Offsets, sequence numbers, codec, epochs and the other attributes must stay as they are; so must
  base_offset and last_offset_delta. A batch that loses nothing must be handed back byte for byte.
- The last batch of a producer survives without records, because it holds the producer's sequence;
  so does the last batch of a segment, because it holds the offsets that the segment covers.
- The records of an aborted transaction go. A marker stays as long as there was anything of its
  transaction to be seen; the next compaction gives it a horizon, and one after that removes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from headwater.log.latest import Latest
from headwater.record import batch as batches
from headwater.record import codecs, control, records
from headwater.record.batch import BatchHeader, Buffer
from headwater.record.errors import InvalidBatch
from headwater.record.keys import offsets_of, payload_of, pick, read_keys
from headwater.record.records import Record

Aborted = Callable[[BatchHeader], bool]
"""Whether a transactional batch of data belongs to a transaction that was aborted."""

_TIMESTAMP_MIN, _TIMESTAMP_MAX = -(2**63), 2**63 - 1
_KEPT_WHEN_EMPTY = 0x38  # timestamp type, transactional, control: no codec, no horizon


class LastOfProducer(NamedTuple):
    """Where an active producer's last batch of data ends; -1 if only a marker of its is left."""

    offset: int
    epoch: int


class Survivors:
    """Decides batch after batch, in the order of the log."""

    def __init__(
        self,
        latest: Latest,
        *,
        first_dirty_offset: int,
        end_offset: int,
        now_ms: int,
        delete_retention_ms: int,
        producers: Mapping[int, LastOfProducer],
        aborted: Aborted,
        nothing_expires: bool = False,
    ) -> None:
        """`latest` must know exactly the batches that end in [first_dirty_offset, end_offset), except
        those that are not handed over either; then `nothing_expires`, nor does its time begin: a tombstone
        or a marker may speak of records among them."""
        self._latest = latest
        self._first_dirty_offset = first_dirty_offset
        self._end_offset = end_offset
        self._now_ms = now_ms
        self._horizon_ms = min(now_ms + delete_retention_ms, _TIMESTAMP_MAX)
        self._producers = producers
        self._aborted = aborted
        self._nothing_expires = nothing_expires
        self._with_data: set[int] = set()
        """Producers of whose current transaction there was data to be seen."""

    def of(self, header: BatchHeader, batch: Buffer, *, is_last: bool) -> Buffer | None:
        """What to write for this batch: the same object if nothing changes, None for nothing."""
        if header.base_offset >= self._end_offset:
            return batch
        keep_empty = is_last or self._is_last_of_producer(header)
        kept = self._marker(header, batch) if header.is_control else self._data(header, batch)
        if kept is not None or not keep_empty:
            return kept
        return emptied(header) if header.record_count else batch

    def untouched(self, header: BatchHeader) -> None:
        """Take note of a batch that stays as it is, whatever is in it."""
        if header.is_transactional and not header.is_control:
            self._with_data.add(header.producer_id)

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        if header.producer_id < 0:
            return False
        last = self._producers.get(header.producer_id)
        if last is None:
            return False
        if last.offset >= 0:
            return header.last_offset == last.offset
        return header.is_control and header.producer_epoch == last.epoch

    # ---- data ----------------------------------------------------------------------------------

    def _data(self, header: BatchHeader, batch: Buffer) -> Buffer | None:
        if header.is_transactional:
            self._with_data.add(header.producer_id)
            if self._aborted(header):
                return None
        if not header.record_count:
            return None
        if header.last_offset >= self._first_dirty_offset:
            kept, tombstones = self._kept_of_dirty(header, batch)
        else:
            kept, tombstones = self._kept_of_clean(header, batch)
        if tombstones and self._is_expired(header):
            kept = sorted(set(kept).difference(tombstones))
            tombstones = []
        if not kept:
            return None
        if tombstones and not header.has_delete_horizon and not self._nothing_expires:
            # Else it stays for good: a delta of more than 64 bits nobody could read.
            earliest = min(record.timestamp for record in records.each(batch))
            if earliest - self._horizon_ms >= _TIMESTAMP_MIN:
                wanted, found = set(kept), enumerate(records.each(batch))
                return self._with_horizon(header, [each for n, each in found if n in wanted])
        if len(kept) == header.record_count:
            return batch
        return with_records(header, batch, kept)

    def _kept_of_dirty(self, header: BatchHeader, batch: Buffer) -> tuple[list[int], list[int]]:
        """Numbers of the records that are the newest of their keys, and of the tombstones among them.

        The map knows their offsets, so that most batches need not be looked into a second time.
        """
        alive = self._latest.alive(header.base_offset, header.next_offset)
        if not alive:
            return [], []
        is_tombstone, base = self._latest.is_tombstone, header.base_offset
        deleted = [offset for offset in alive if is_tombstone(offset)]
        offsets = offsets_of(header, batch)
        if isinstance(offsets, range):
            return [offset - base for offset in alive], [offset - base for offset in deleted]
        number_of = {offset: number for number, offset in enumerate(offsets)}
        return [number_of[offset] for offset in alive], [number_of[offset] for offset in deleted]

    def _kept_of_clean(self, header: BatchHeader, batch: Buffer) -> tuple[list[int], list[int]]:
        """The same for a batch that an earlier compaction has seen: every key in the map is newer."""
        keys, without_value = read_keys(payload_of(header, batch), header.record_count)
        if None not in keys and not self._latest.has_any(keys):
            return list(range(len(keys))), without_value
        newer = self._latest.offsets
        kept = [n for n, key in enumerate(keys) if key is not None and key not in newer]
        return kept, sorted(set(kept).intersection(without_value)) if without_value else []

    def _is_expired(self, header: BatchHeader) -> bool:
        due = header.has_delete_horizon and header.base_timestamp <= self._now_ms
        return due and not self._nothing_expires

    def _with_horizon(self, header: BatchHeader, kept: list[Record]) -> bytes:
        """Built anew, because every timestamp is relative to the base timestamp."""
        return records.build(
            kept,
            base_offset=header.base_offset,
            codec=header.codec,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            leader_epoch=header.leader_epoch,
            transactional=header.is_transactional,
            control=header.is_control,
            log_append_time=header.max_timestamp if header.is_log_append_time else None,
            delete_horizon_ms=self._horizon_ms,
            last_offset_delta=header.last_offset_delta,
        )

    # ---- markers -------------------------------------------------------------------------------

    def _marker(self, header: BatchHeader, batch: Buffer) -> Buffer | None:
        if not header.record_count:
            return None  # emptied earlier, and kept only for its producer or its offset
        try:
            control.read_marker(batch)
        except InvalidBatch:
            return batch  # some other control record; not ours to judge
        had_data = header.producer_id in self._with_data
        self._with_data.discard(header.producer_id)
        if had_data or self._nothing_expires:
            return batch
        if not header.has_delete_horizon:
            return self._with_horizon(header, records.decode(batch)[:1])
        return None if self._is_expired(header) else batch


def with_records(header: BatchHeader, batch: Buffer, kept: list[int]) -> bytes:
    """The batch with only these records, which keep their bytes: no delta in them changes."""
    payload, largest_delta = pick(payload_of(header, batch), kept)
    latest = header.max_timestamp
    if not header.is_log_append_time:
        latest = max(-1, min(header.base_timestamp + largest_delta, _TIMESTAMP_MAX))
    return batches.pack(
        header._replace(record_count=len(kept), max_timestamp=latest),
        codecs.compress(header.codec, payload),
    )


def emptied(header: BatchHeader) -> bytes:
    """As Kafka writes it: the header alone, without codec and horizon."""
    attributes = header.attributes & _KEPT_WHEN_EMPTY
    return batches.pack(
        header._replace(attributes=attributes, base_timestamp=-1, record_count=0), b""
    )
