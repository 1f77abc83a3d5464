"""Values as the payloads of record batches, without an object for each; pure. `bulk` calls it.

A record without key and headers, its integers as zigzag varints (`record.records` has the layout):

    length │ 0 attributes │ 0 timestamp delta │ offset delta │ -1 no key │ value length │ value │ 0 headers

What depends on a value's length alone comes from tables, what depends on its number from another, and one
join puts them together: a third of a microsecond a record.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain
from typing import NamedTuple

from headwater.record import varint

RECORDS_MAX = 8192
"""Of a batch: up to here an offset delta has one byte (below 64) or two."""
BYTES_MAX = 900_000
"""Of a batch, as long as it is not one record: topics take a megabyte unless told otherwise."""
_SHORT = 64
_OVERHEAD = 16
_TABLE_MAX = 20_000


class Chunk(NamedTuple):
    """The records of one batch, and its payload."""

    values: Sequence[bytes]
    payload: bytes


class _Table(dict[int, bytes]):
    """Filled as lengths are met."""

    def __init__(self, delta_bytes: int) -> None:
        super().__init__()
        self._delta_bytes = delta_bytes

    def __missing__(self, length: int) -> bytes:
        if len(self) >= _TABLE_MAX:
            self.clear()
        whole = 3 + self._delta_bytes + len(varint.encode(length)) + length + 1
        # The last byte of the record before, which is always 0: no headers.
        self[length] = found = b"\0" + varint.encode(whole) + b"\0\0"
        return found


class _Lengths(dict[int, bytes]):
    def __missing__(self, length: int) -> bytes:
        if len(self) >= _TABLE_MAX:
            self.clear()
        self[length] = found = b"\1" + varint.encode(length)
        return found


_heads = {1: _Table(1), 2: _Table(2)}
_lengths = _Lengths()
_deltas = [varint.encode(number) for number in range(RECORDS_MAX)]


def chunks(values: Sequence[bytes], bytes_max: int = BYTES_MAX) -> Iterator[Chunk]:
    """In order; each small enough to be a batch, or one record."""
    ends = list(accumulate(len(value) + _OVERHEAD for value in values))
    begin = 0
    while begin < len(values):
        before = ends[begin - 1] if begin else 0
        most = min(begin + RECORDS_MAX, len(values))
        end = max(begin + 1, bisect_right(ends, before + bytes_max, begin, most))
        some = values[begin:end]
        yield Chunk(some, payload(some))
        begin = end


def payload(values: Sequence[bytes]) -> bytes:
    """At most RECORDS_MAX of them."""
    parts = chain(_parts(values[:_SHORT], 1, 0), _parts(values[_SHORT:], 2, _SHORT))
    return b"".join(parts)[1:] + b"\0"


def _parts(values: Sequence[bytes], delta_bytes: int, first: int) -> Iterator[bytes]:
    sizes = list(map(len, values))
    heads = map(_heads[delta_bytes].__getitem__, sizes)
    deltas = _deltas[first : first + len(sizes)]
    lengths = map(_lengths.__getitem__, sizes)
    return chain.from_iterable(zip(heads, deltas, lengths, values, strict=True))
