"""The records of batches to columns: the one loop that everything else here is about (numba).

`columns` allots the outputs, large enough for whatever the batches can hold, and makes Arrow arrays of
what was filled. A record's layout is in `headwater.record.records`; offsets in the columns are Arrow's,
int32, so a call must not be given more than 2 GiB of records.

Every length must be checked before it is used: an error is a negative number, and nothing outside the
payload of its batch is read.
"""

from __future__ import annotations

from headwater.client.decode import machine  # noqa: F401, isort: skip  (first: numba reads it)

import numba
from numba import types

from headwater.client.decode.headers import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_TIME,
    BYTES,
    COUNT,
    LAST_DELTA,
    LOG_APPEND_TIME,
    MAX_TIME,
    PAYLOAD,
    PAYLOAD_SIZE,
    TABLE,
)
from headwater.client.decode.memcpy import copy_bytes

U8, I32, I64 = types.uint8[::1], types.int32[::1], types.int64[::1]
VARINT = types.UniTuple(types.int64, 2)

ROWS, KEY_BYTES, VALUE_BYTES, KEY_NULLS, VALUE_NULLS, HEADERS, NAME_BYTES, CONTENT_BYTES = range(8)
"""What `fill` reports in `sizes`."""
SIZES = 8
CORRUPT = -1

_FAIL = -(1 << 62)


@numba.njit(VARINT(BYTES, types.int64, types.int64), cache=True, nogil=True)
def _varint(data, at, end):  # type: ignore[no-untyped-def]
    """A zigzag integer of up to ten bytes, and what follows it; (…, _FAIL) if there is none."""
    value, shift = types.uint64(0), types.uint64(0)
    while at < end and shift < 70:
        byte = types.uint64(data[at])
        at += 1
        value |= (byte & types.uint64(0x7F)) << shift
        if byte < 128:
            return types.int64(value >> types.uint64(1)) ^ -types.int64(value & types.uint64(1)), at
        shift += types.uint64(7)
    return types.int64(0), types.int64(_FAIL)


@numba.njit(
    types.int64(
        BYTES,  # the payloads
        TABLE,  # their batches
        types.UniTuple(types.int64, 4),  # first offset, end offset, first and last microsecond
        types.UniTuple(types.boolean, 3),  # whether key, value, headers are wanted
        types.Tuple((I64, I64, I32)),  # offset, timestamp, timestamp type
        types.Tuple((I32, U8, U8)),  # keys: ends, bytes, present
        types.Tuple((I32, U8, U8)),  # values
        types.Tuple((I32, U8, I32, U8, I32, U8, U8)),  # headers: see `columns`
        I64,  # sizes
    ),
    cache=True,
    nogil=True,
)
def fill(data, table, bounds, wanted, fixed, keys, values, headers, sizes):  # type: ignore[no-untyped-def]
    """Decode; 0, or CORRUPT. `sizes` says how much of each output was filled."""
    first, end, since, until = bounds
    want_key, want_value, want_headers = wanted
    offsets, times, kinds = fixed
    key_ends, key_data, key_there = keys
    value_ends, value_data, value_there = values
    list_ends, list_there, name_ends, names, content_ends, contents, content_there = headers
    row = types.int64(0)
    key_at = types.int64(0)
    value_at = types.int64(0)
    key_nulls = types.int64(0)
    value_nulls = types.int64(0)
    header = types.int64(0)
    name_at = types.int64(0)
    content_at = types.int64(0)
    key_ends[0] = 0
    value_ends[0] = 0
    list_ends[0] = 0
    name_ends[0] = 0
    content_ends[0] = 0

    for n in range(table.shape[0]):
        at = table[n, PAYLOAD]
        stop = at + table[n, PAYLOAD_SIZE]
        base_offset = table[n, BASE_OFFSET]
        base_time = table[n, BASE_TIME]
        appended = table[n, ATTRIBUTES] & LOG_APPEND_TIME
        append_time = table[n, MAX_TIME]
        count = table[n, COUNT]
        last = table[n, LAST_DELTA]
        previous = types.int64(-1)
        for _ in range(count):
            # The length of the record.
            if at >= stop:
                return CORRUPT
            byte = types.int64(data[at])
            if byte < 128:
                at += 1
                length = (byte >> 1) ^ -(byte & 1)
            else:
                length, at = _varint(data, at, stop)
            if at < 0 or length < 6 or length > stop - at:
                return CORRUPT
            record_end = at + length
            at += 1  # attributes
            byte = types.int64(data[at])
            if byte < 128:
                at += 1
                delta = (byte >> 1) ^ -(byte & 1)
            else:
                delta, at = _varint(data, at, record_end)
                if at < 0:
                    return CORRUPT
            time = append_time if appended else base_time + delta
            if at >= record_end:
                return CORRUPT
            byte = types.int64(data[at])
            if byte < 128:
                at += 1
                delta = (byte >> 1) ^ -(byte & 1)
            else:
                delta, at = _varint(data, at, record_end)
                if at < 0:
                    return CORRUPT
            if delta <= previous or delta > last:
                return CORRUPT
            previous = delta
            offset = base_offset + delta
            if at >= record_end:
                return CORRUPT
            byte = types.int64(data[at])
            if byte < 128:
                at += 1
                key_size = (byte >> 1) ^ -(byte & 1)
            else:
                key_size, at = _varint(data, at, record_end)
            if at < 0 or key_size < -1 or key_size >= record_end - at:
                return CORRUPT
            key_from = at
            at += max(key_size, types.int64(0))
            byte = types.int64(data[at])
            if byte < 128:
                at += 1
                value_size = (byte >> 1) ^ -(byte & 1)
            else:
                value_size, at = _varint(data, at, record_end)
            if at < 0 or value_size < -1 or value_size >= record_end - at:
                return CORRUPT
            value_from = at
            at += max(value_size, types.int64(0))
            byte = types.int64(data[at])
            if byte < 128:
                at += 1
                header_count = (byte >> 1) ^ -(byte & 1)
            else:
                header_count, at = _varint(data, at, record_end)
            if at < 0 or header_count < 0 or header_count > record_end - at:
                return CORRUPT

            micros = time * 1000
            takes = first <= offset < end and since <= micros <= until
            first_header, first_name, first_content = header, name_at, content_at
            for _ in range(header_count):
                size, at = _varint(data, at, record_end)
                if at < 0 or size < 0 or size > record_end - at:
                    return CORRUPT
                if want_headers and takes:
                    copy_bytes(names, name_at, data, at, size)
                    name_at += size
                at += size
                size, at = _varint(data, at, record_end)
                if at < 0 or size < -1 or size > record_end - at:
                    return CORRUPT
                if want_headers and takes:
                    content_there[header] = size >= 0
                    if size > 0:
                        copy_bytes(contents, content_at, data, at, size)
                        content_at += size
                    header += 1
                    name_ends[header] = name_at
                    content_ends[header] = content_at
                at += max(size, types.int64(0))
            if at != record_end:
                return CORRUPT
            if not takes:
                header, name_at, content_at = first_header, first_name, first_content
                continue

            offsets[row] = offset
            times[row] = micros
            kinds[row] = 1 if appended else 0
            if want_key:
                if key_size < 0:
                    key_nulls += 1
                    key_there[row] = 0
                else:
                    key_there[row] = 1
                    copy_bytes(key_data, key_at, data, key_from, key_size)
                    key_at += key_size
                key_ends[row + 1] = key_at
            if want_value:
                if value_size < 0:
                    value_nulls += 1
                    value_there[row] = 0
                else:
                    value_there[row] = 1
                    copy_bytes(value_data, value_at, data, value_from, value_size)
                    value_at += value_size
                value_ends[row + 1] = value_at
            if want_headers:
                list_there[row] = header_count > 0
                list_ends[row + 1] = header
            row += 1
        if at != stop:
            return CORRUPT

    sizes[ROWS] = row
    sizes[KEY_BYTES] = key_at
    sizes[VALUE_BYTES] = value_at
    sizes[KEY_NULLS] = key_nulls
    sizes[VALUE_NULLS] = value_nulls
    sizes[HEADERS] = header
    sizes[NAME_BYTES] = name_at
    sizes[CONTENT_BYTES] = content_at
    return 0
