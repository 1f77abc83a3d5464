"""A record batch that is encoded and still lacks its header: made by `rows`, finished by `producer`.

Apart from `rows`, because the driver sends its decisions this way too and should not have to load numba.
"""

from __future__ import annotations

import struct
import time
from typing import NamedTuple

from crc32c import crc32c

from headwater.record import batch as batches
from headwater.record import codecs

_TRANSACTIONAL = 0x10
_HEADER = struct.Struct(">qiibIhiqqqhii")
_CHECKED = struct.Struct(">hiqqqhii")


class Unsent(NamedTuple):
    """Records for one partition; `buffer` has the room for the header before them."""

    topic: str
    partition: int
    size: int
    buffer: memoryview


def finish(
    unsent: Unsent, codec: int, producer_id: int, producer_epoch: int, sequence: int
) -> memoryview:
    """The record batch, ready to be sent: header filled in, compressed where asked for."""
    now = int(time.time() * 1000)
    fields = (codec | _TRANSACTIONAL, unsent.size - 1, now, now, producer_id, producer_epoch)
    checked = (*fields, sequence, unsent.size)
    records = unsent.buffer[batches.HEADER_BYTES :]
    if codec != codecs.NONE:
        header = batches.BatchHeader(0, 0, -1, 2, 0, *checked)
        return memoryview(batches.pack(header, codecs.compress(codec, records)))
    crc = crc32c(records, crc32c(_CHECKED.pack(*checked)))
    length = len(unsent.buffer) - batches.LOG_OVERHEAD
    _HEADER.pack_into(unsent.buffer, 0, 0, length, -1, 2, crc, *checked)
    return unsent.buffer
