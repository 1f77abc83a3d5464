"""Text in compiled code: numbers, times and letters into a buffer of bytes, for `events`.

Chance is a function of a seed, an event's number and a field's: an event is the same in whatever piece it is
made, and by whatever process.
"""

from __future__ import annotations

from headwater.client.decode import machine  # noqa: F401, isort: skip  (first: numba reads it)

import numpy as np
from numba import njit
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
_ZERO = 48
_LETTERS_OF_A_WORD = 12
"""So many times five bits are in a random number of 64."""


_ALPHABET = np.frombuffer(b"abcdefghijklmnopqrstuvwxyzaeinos", np.uint8)
"""Five bits are one of 32 letters, so that nothing has to be divided."""


def literal(text: str) -> Bytes:
    return np.frombuffer(text.encode("ascii"), np.uint8)


def literals(*texts: str) -> tuple[Bytes, NDArray[np.int64]]:
    """Several texts as one, and where each begins; the last number is the end."""
    ends = np.cumsum([0, *map(len, texts)]).astype(np.int64)
    return literal("".join(texts)), ends


@njit(cache=True, nogil=True)
def chance(seed: int, event: int, field: int) -> np.uint64:
    """A random number of 64 bits (SplitMix64)."""
    mixed = np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(event) * np.uint64(
        0xD1B54A32D192ED03
    )
    mixed += np.uint64(field) * np.uint64(0x8CB92BA72F3D8DD7) + np.uint64(0x2545F4914F6CDD1D)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


@njit(cache=True, nogil=True)
def below(seed: int, event: int, field: int, limit: int) -> int:
    """A random number from 0 to limit - 1."""
    return int(chance(seed, event, field) % np.uint64(limit))


@njit(cache=True, nogil=True)
def put(buffer: Bytes, at: int, text: Bytes) -> int:
    for index in range(text.size):
        buffer[at + index] = text[index]
    return at + text.size


@njit(cache=True, nogil=True)
def put_one_of(buffer: Bytes, at: int, texts: Bytes, ends: NDArray[np.int64], which: int) -> int:
    for index in range(ends[which], ends[which + 1]):
        buffer[at] = texts[index]
        at += 1
    return at


@njit(cache=True, nogil=True)
def put_digits(buffer: Bytes, at: int, number: int, digits: int) -> int:
    """With zeros before it."""
    left = np.uint64(number)
    for place in range(at + digits - 1, at - 1, -1):
        shorter = left // np.uint64(10)
        buffer[place] = np.uint64(_ZERO) + left - shorter * np.uint64(10)
        left = shorter
    return at + digits


@njit(cache=True, nogil=True)
def put_number(buffer: Bytes, at: int, number: int) -> int:
    digits, limit = 1, np.uint64(10)
    while np.uint64(number) >= limit:
        digits += 1
        limit *= np.uint64(10)
    return put_digits(buffer, at, number, digits)


@njit(cache=True, nogil=True)
def put_letters(buffer: Bytes, at: int, count: int, seed: int, event: int, field: int) -> int:
    bits = np.uint64(0)
    for index in range(count):
        if index % _LETTERS_OF_A_WORD == 0:
            bits = chance(seed, event, field + index // _LETTERS_OF_A_WORD)
        buffer[at + index] = _ALPHABET[bits & np.uint64(31)]
        bits >>= np.uint64(5)
    return at + count


@njit(cache=True, nogil=True)
def put_time(buffer: Bytes, at: int, time_ms: int) -> int:
    """ISO 8601 in UTC, to the millisecond. The day is found as in Hinnant's `civil_from_days`."""
    days, rest = time_ms // 86_400_000, time_ms % 86_400_000
    shifted = days + 719_468
    era = shifted // 146_097
    of_era = shifted - era * 146_097
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    moved = (5 * of_year + 2) // 153
    day = of_year - (153 * moved + 2) // 5 + 1
    month = moved + 3 if moved < 10 else moved - 9
    year = year_of_era + era * 400 + (1 if month <= 2 else 0)
    at = put_digits(buffer, at, year, 4)
    buffer[at] = 45
    at = put_digits(buffer, at + 1, month, 2)
    buffer[at] = 45
    at = put_digits(buffer, at + 1, day, 2)
    buffer[at] = 84
    at = put_digits(buffer, at + 1, rest // 3_600_000, 2)
    buffer[at] = 58
    at = put_digits(buffer, at + 1, rest // 60_000 % 60, 2)
    buffer[at] = 58
    at = put_digits(buffer, at + 1, rest // 1000 % 60, 2)
    buffer[at] = 46
    at = put_digits(buffer, at + 1, rest % 1000, 3)
    buffer[at] = 90
    return at + 1
