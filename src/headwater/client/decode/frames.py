"""JSON values one behind the other, as a reader of JSON lines wants them; and which are no object (numba).

`values.json` calls `frame` with a column of values. Each value must be one object from its first to its
last byte: braces are counted outside of strings, so that a value with too few or too many of them cannot
shift the rows of its neighbours. It must also be UTF-8, which Arrow's parser does not look at. What is
between the braces is for the parser to judge. Line breaks between tokens become blanks; within a string
they are an error, as are other control characters.
"""

from __future__ import annotations

from headwater.client.decode import machine  # noqa: F401, isort: skip  (first: numba reads it)

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

from headwater.client.decode.headers import BYTES

ENDS = types.Array(types.int32, 1, "C", readonly=True)
U8, I64 = types.uint8[::1], types.int64[::1]

GOOD, NO_OBJECT, BREAKS_OFF, MORE_BEHIND, CONTROL_CHARACTER, NO_UTF8 = range(6)
REASONS = {
    NO_OBJECT: "the value is no JSON object",
    BREAKS_OFF: "the JSON object breaks off",
    MORE_BEHIND: "there is more behind the JSON object",
    CONTROL_CHARACTER: "a string in the JSON has a control character",
    NO_UTF8: "the value is not UTF-8",
}

_QUOTE, _ESCAPE, _OPEN, _CLOSE, _BREAK = 34, 92, 123, 125, 10


@numba.njit(types.uint8(BYTES, types.int64, types.int64, U8, types.int64), cache=True, nogil=True)
def _one(data, start, end, out, to):  # type: ignore[no-untyped-def]
    depth = types.int64(0)
    quoted = False
    escaped = False
    begun = False
    follow = types.int64(0)  # bytes that a character of several has yet to get
    low, high = types.uint8(0x80), types.uint8(0xBF)
    for at in range(start, end):
        byte = data[at]
        out[to] = byte
        to += 1
        if follow:
            if byte < low or byte > high:
                return types.uint8(NO_UTF8)
            follow -= 1
            low, high = types.uint8(0x80), types.uint8(0xBF)
            escaped = False
            continue
        if byte >= 0x80:
            # RFC 3629: no overlong spellings, no surrogates, nothing beyond U+10FFFF.
            if byte < 0xC2 or byte > 0xF4:
                return types.uint8(NO_UTF8)
            follow = types.int64(1) if byte < 0xE0 else types.int64(2 if byte < 0xF0 else 3)
            if byte == 0xE0:
                low = types.uint8(0xA0)
            elif byte == 0xED:
                high = types.uint8(0x9F)
            elif byte == 0xF0:
                low = types.uint8(0x90)
            elif byte == 0xF4:
                high = types.uint8(0x8F)
        if quoted:
            if byte < 32:
                return types.uint8(CONTROL_CHARACTER)
            if escaped:
                escaped = False
            elif byte == _ESCAPE:
                escaped = True
            elif byte == _QUOTE:
                quoted = False
        elif byte == 32 or byte == 9 or byte == 10 or byte == 13:
            out[to - 1] = 32
        elif begun and depth == 0:
            return types.uint8(MORE_BEHIND)
        elif byte == _OPEN:
            depth += 1
            begun = True
        elif not begun:
            return types.uint8(NO_OBJECT)
        elif byte == _CLOSE:
            depth -= 1
        elif byte == _QUOTE:
            quoted = True
    if follow:
        return types.uint8(NO_UTF8)
    if not begun:
        return types.uint8(NO_OBJECT)
    return types.uint8(GOOD) if depth == 0 and not quoted else types.uint8(BREAKS_OFF)


@numba.njit(types.int64(BYTES, ENDS, U8, U8, I64, U8), cache=True, nogil=True)
def _frame(data, ends, there, out, starts, verdicts):  # type: ignore[no-untyped-def]
    to = types.int64(0)
    row = types.int64(0)
    starts[0] = 0
    for n in range(len(ends) - 1):
        if not there[n]:
            verdicts[n] = GOOD
            continue
        verdicts[n] = _one(data, types.int64(ends[n]), types.int64(ends[n + 1]), out, to)
        if verdicts[n] == GOOD:
            to += ends[n + 1] - ends[n]
            out[to] = _BREAK
            to += 1
            row += 1
            starts[row] = to
    return row


def frame(
    data: NDArray[np.uint8], ends: NDArray[np.int32], there: NDArray[np.uint8]
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.uint8]]:
    """The good values as lines, where each line begins (and the last one ends), and all verdicts."""
    rows = len(ends) - 1
    out = np.empty(int(ends[-1] - ends[0]) + rows, np.uint8)
    starts, verdicts = np.empty(rows + 1, np.int64), np.empty(rows, np.uint8)
    count = _frame(data, ends, there, out, starts, verdicts)
    return out[: starts[count]], starts[: count + 1], verdicts
