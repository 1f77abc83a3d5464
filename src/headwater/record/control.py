"""Control batches: the markers with which the transaction coordinator ends a transaction in each
partition that it wrote to. The coordinator writes them, the log reads them to know which
transactions were aborted; clients see them and skip them. One record, big-endian:

    key     2  version, 0            value   2  version, 0
            2  type: 0 abort,                4  epoch of the coordinator that wrote it
               1 commit

A marker must take an offset of its own, be transactional and control, and carry the producer's id
and epoch but no sequence. Readers must accept newer versions with more after these fields.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from headwater.record import batch as batches
from headwater.record import records
from headwater.record.errors import CorruptBatch, InvalidBatch
from headwater.record.varint import Buffer

ABORT, COMMIT = 0, 1

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")


class Marker(NamedTuple):
    """The end of one producer's transaction in one partition."""

    kind: int
    producer_id: int
    producer_epoch: int
    offset: int
    timestamp: int
    coordinator_epoch: int


def marker(
    kind: int,
    producer_id: int,
    producer_epoch: int,
    offset: int,
    timestamp: int,
    coordinator_epoch: int,
) -> bytes:
    """The control batch that commits (`COMMIT`) or aborts (`ABORT`) the producer's transaction."""
    if kind not in (ABORT, COMMIT):
        raise ValueError(f"a marker commits or aborts; {kind} is neither")
    key, value = _KEY.pack(0, kind), _VALUE.pack(0, coordinator_epoch)
    return records.build(
        [records.Record(offset, timestamp, key, value)],
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def read_marker(batch: Buffer, position: int = 0) -> Marker:
    """The marker in a control batch; InvalidBatch when the batch is something else.

    Kafka has other kinds of control records, for its metadata log; they end no transaction.
    """
    header = batches.read_header(batch, position)
    if not header.is_control:
        raise InvalidBatch("not a control batch")
    found = records.decode(batch, position)
    if not found:
        raise InvalidBatch("a control batch from which compaction has removed the marker")
    offset, timestamp, key, value, _ = found[0]
    if key is None or len(key) < _KEY.size:
        raise CorruptBatch("a control record without a type")
    _, kind = _KEY.unpack_from(key)
    if kind not in (ABORT, COMMIT):
        raise InvalidBatch(f"control record of type {kind} does not end a transaction")
    if value is None or len(value) < _VALUE.size:
        raise CorruptBatch("a transaction marker without its coordinator's epoch")
    _, coordinator_epoch = _VALUE.unpack_from(value)
    return Marker(
        kind, header.producer_id, header.producer_epoch, offset, timestamp, coordinator_epoch
    )
