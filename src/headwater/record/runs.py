"""Records of one shape in a row, checked together: most producers send records of equal size.

`validate` calls this where two records have the same length. The first of them is taken as the pattern:
which of its bytes are lengths, which are the timestamp and the number. Each of these places is then
looked at in many records at once, as a column of the bytes that lie one record apart:

    lengths of record, key, value and headers         the same byte in all of them
    timestamp delta                                   as many bytes in all of them, of any value;
                                                      the smallest and the largest are found
    offset delta                                      what the records' numbers are spelt like

Nothing is refused here: whatever does not fit the pattern is left to be looked at one by one.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Literal

_HIGH = bytes(range(128, 256))
_LOW = bytes(range(128))
_FEW = 256
_HEADERS_MAX = 2 * 10
_CASTS: tuple[tuple[int, Literal["H", "I", "Q"]], ...] = ((2, "H"), (4, "I"), (8, "Q"))
_CHANGES_MAX = 8
_WIDTHS = ((64, 1), (8192, 2), (1 << 20, 3))
"""Numbers below the first are spelt in the second many bytes (zigzag: see `varint`)."""


def alike(data: bytes, start: int, number: int, count: int) -> tuple[int, int, list[int], bool]:
    """How many records from the one at `start` on are sound and of its shape; where they end; their
    timestamp deltas in zigzag, those between the earliest and the latest left out; whether they have
    no key."""
    try:
        pattern = _pattern(data, start, number)
    except IndexError:
        pattern = None
    if pattern is None:
        return 0, start, [], False
    size, fixed, high, low, (at, width, most), keyless = pattern
    left = min(count, most) - number
    left = min(left, (len(data) - start) // size)
    total, few = 0, _FEW
    spelt: set[int] = set()
    while total < left:
        first = start + total * size
        same = wanted = min(few, left - total)
        if not _numbered(data, first + at, size, number + total, wanted, width):
            break
        for place, byte in fixed:
            column = data[first + place : first + place + (same - 1) * size + 1 : size]
            same -= len(column.lstrip(byte))
        stamps: list[bytes] = []
        for place in high:
            column = data[first + place : first + place + (same - 1) * size + 1 : size]
            same -= len(column.lstrip(_HIGH))
            stamps.append(column)
        column = data[first + low : first + low + (same - 1) * size + 1 : size]
        if not column.isascii():
            same -= len(column.lstrip(_LOW))
        spelt |= _distinct([each[:same] for each in (*stamps, column)])
        total += same
        if same < wanted:
            break
        few *= 8
    return total, start + total * size, _extremes(spelt, len(high) + 1), keyless


def _extremes(spelt: set[int], width: int) -> list[int]:
    """Of integers in zigzag those that may be the smallest or the largest."""
    # Spelt in as many bytes, they are in the order of their spellings.
    ordered = sorted(spelt)
    kinds = ([each for each in ordered if not each & 1], [each for each in ordered if each & 1])
    # Two of each end: one of them may stand for no timestamp at all.
    ends = [end for each in kinds for end in (*each[:2], *each[-2:])]
    return [_value(end, width) for end in ends]


def _distinct(columns: list[bytes]) -> set[int]:
    """What is spelt by these columns of bytes, the lowest first: each spelling as a number."""
    if len(columns) == 1:
        return set(columns[0])
    # Times are near one another: their highest bytes change a few times at most.
    *lower, highest = columns
    found: set[int] = set()
    begin, shift = 0, 8 * len(lower)
    for _ in range(_CHANGES_MAX):
        end = len(highest) - len(highest[begin:].lstrip(highest[begin : begin + 1]))
        below = _distinct([column[begin:end] for column in lower])
        top = highest[begin] << shift
        found |= {top | each for each in below} if top else below
        if end == len(highest):
            return found
        begin = end
    return found | _distinct_of_many([column[begin:] for column in columns])


def _distinct_of_many(columns: list[bytes]) -> set[int]:
    wide, kind = next(each for each in _CASTS if len(columns) <= each[0])
    spread = bytearray(wide * len(columns[0]))
    for index, column in enumerate(columns):
        spread[index if sys.byteorder == "little" else wide - 1 - index :: wide] = column
    return set(memoryview(spread).cast(kind).tolist())


def _value(spelt: int, width: int) -> int:
    return sum((spelt >> 8 * index & 0x7F) << 7 * index for index in range(width))


def _pattern(
    data: bytes, start: int, number: int
) -> tuple[int, list[tuple[int, bytes]], range, int, tuple[int, int, int], bool] | None:
    """Size of the record, its places by kind, whether it has no key; None if it is unusual, or not sound."""
    lengths: list[int] = []
    n, position = _read(data, start, lengths)
    end = position + (n >> 1)
    timestamp = position + 1
    position = timestamp
    while data[position] > 127 and position < timestamp + 8:
        position += 1
    low = position
    position += 1
    spelling = next((each for each in _WIDTHS if number < each[0]), None)
    if spelling is None:
        return None
    most, width = spelling
    at = position
    position += width
    key_length, position = _read(data, position, lengths)
    position += key_length >> 1
    length, position = _read(data, position, lengths)
    position += length >> 1
    if (key_length & 1 and key_length != 1) or (length & 1 and length != 1):
        return None
    headers, position = _read(data, position, lengths)
    if headers > _HEADERS_MAX:
        return None
    for number in range(headers):  # in zigzag: as many lengths as there are names and values
        length, position = _read(data, position, lengths)
        if length & 1 and (length != 1 or not number & 1):
            return None
        position += length >> 1
    if n & 1 or headers & 1 or position != end or low - timestamp > 7:
        return None
    fixed = [(place - start, data[place : place + 1]) for place in lengths]
    high = range(timestamp - start, low - start)
    return end - start, fixed, high, low - start, (at - start, width, most), key_length == 1


def _read(data: bytes, position: int, places: list[int]) -> tuple[int, int]:
    """An integer in zigzag, and the position behind it; the places of its bytes are added."""
    value = 0
    for shift in (0, 7, 14, 21, 28):
        byte = data[position]
        places.append(position)
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 128:
            return value, position
    return 3, position  # too long: an impossible length, for the caller to see


def _numbered(data: bytes, at: int, size: int, number: int, count: int, width: int) -> bool:
    """Whether the offset deltas of these records are their numbers."""
    for index in range(width):
        column = data[at + index : at + index + (count - 1) * size + 1 : size]
        if column != _column(width, index)[number : number + count]:
            return False
    return True


@cache
def _column(width: int, index: int) -> bytes:
    """Byte `index` of each number from 0 on, as it is spelt in `width` bytes."""
    more = 0x80 if index < width - 1 else 0
    shift = 7 * index
    if index == 0:
        period = bytes((2 * n & 0x7F | more) for n in range(64))
        return period * (_WIDTHS[width - 1][0] // 64)
    each = 1 << (shift - 1)  # so many numbers in a row have the same byte
    period = b"".join(bytes(((n & 0x7F) | more,)) * each for n in range(128))
    wanted = _WIDTHS[width - 1][0]
    return (period * -(-wanted // len(period)))[:wanted]
