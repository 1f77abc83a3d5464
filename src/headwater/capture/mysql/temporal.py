"""Dates and times: from the binary log's bytes, or from the server's text, to JSON fragments; pure.

Debezium's forms: DATE is days since 1970, DATETIME milliseconds (from four fraction digits on:
microseconds) as if it were UTC, TIME microseconds, TIMESTAMP an ISO 8601 string in UTC. A date that no
calendar has (0000-00-00, 2020-00-10, 2021-02-31) is given as its text, because every number would be a
lie; `zero_dates = "debezium"` gives null or, where a column has none, the epoch.

Dates are few and repeat, so their fragments are remembered, in a table with a bound.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta

REMEMBERED_MAX = 4096
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1)

Lost = str | None
"""What stands for a date that no calendar has; None: its own text."""


class Dates(dict[bytes, "int | str"]):
    """The three bytes of a DATE → fragment."""

    def __init__(self, lost: Lost) -> None:
        super().__init__()
        self._lost = lost

    def __missing__(self, raw: bytes) -> int | str:
        packed = int.from_bytes(raw, "little")
        found = days(packed >> 9, packed >> 5 & 15, packed & 31, self._lost)
        if len(self) < REMEMBERED_MAX:
            self[raw] = found
        return found


def days(year: int, month: int, day: int, lost: Lost) -> int | str:
    try:
        return date(year, month, day).toordinal() - _EPOCH_DAY
    except ValueError:
        return f'"{year:04d}-{month:02d}-{day:02d}"' if lost is None else lost


def datetimes(digits: int, lost: Lost) -> Callable[[bytes], int | str]:
    """DATETIME with so many fraction digits: five bytes, then the fraction; big-endian.

    The 40 bits: sign, year * 13 + month (17), day (5), hour (5), minute (6), second (6).
    """
    scale = _fraction_scale(digits)
    known: dict[int, int | str] = {}
    minutes: dict[int, int] = {}

    def whole(raw: bytes) -> int | str:
        """Without fraction: what is common, and worth a shorter way."""
        packed = int.from_bytes(raw, "big")
        first = minutes.get(packed >> 6)
        if first is not None:
            return first + (packed & 63) * 1000
        found = fragment(raw)
        if isinstance(found, int) and len(minutes) < REMEMBERED_MAX:
            minutes[packed >> 6] = found - (packed & 63) * 1000
        return found

    def fragment(raw: bytes) -> int | str:
        packed = int.from_bytes(raw[:5], "big")
        day_part = packed >> 17
        first = known.get(day_part)
        if first is None:
            months = day_part >> 5 & 0x1FFFF
            first = days(months // 13, months % 13, day_part & 31, "" if lost is None else lost)
            if len(known) < REMEMBERED_MAX:
                known[day_part] = first
        seconds = (packed >> 12 & 31) * 3600 + (packed >> 6 & 63) * 60 + (packed & 63)
        micros = int.from_bytes(raw[5:], "big") * scale
        if isinstance(first, str):
            return first or _datetime_text(packed, micros, digits)
        if digits > 3:
            return (first * 86400 + seconds) * 1_000_000 + micros
        return (first * 86400 + seconds) * 1000 + micros // 1000

    return fragment if digits else whole


def _datetime_text(packed: int, micros: int, digits: int) -> str:
    months = packed >> 22 & 0x1FFFF
    text = f"{months // 13:04d}-{months % 13:02d}-{packed >> 17 & 31:02d}"
    text += f" {packed >> 12 & 31:02d}:{packed >> 6 & 63:02d}:{packed & 63:02d}"
    return f'"{text}{fraction_text(micros, digits)}"'


def timestamps(digits: int, lost: Lost) -> Callable[[bytes], str]:
    """TIMESTAMP: four bytes of seconds since 1970, then the fraction; big-endian. Zero is no time."""
    scale = _fraction_scale(digits)
    minutes: dict[int, str] = {}
    zero = f'"0000-00-00 00:00:00{fraction_text(0, digits)}"' if lost is None else lost
    if zero == "0":
        zero = '"1970-01-01T00:00:00Z"'

    def fragment(raw: bytes) -> str:
        seconds = int.from_bytes(raw[:4], "big")
        micros = int.from_bytes(raw[4:], "big") * scale
        if not seconds and not micros:
            return zero
        minute, second = divmod(seconds, 60)
        text = minutes.get(minute)
        if text is None:
            text = (_EPOCH + timedelta(minutes=minute)).strftime("%Y-%m-%dT%H:%M:")
            if len(minutes) < REMEMBERED_MAX:
                minutes[minute] = text
        return f'"{text}{second:02d}{fraction_text(micros, digits)}Z"'

    return fragment


def times(digits: int) -> Callable[[bytes], int]:
    """TIME: three bytes and the fraction as one number around 0x800000…; hour (10), minute, second."""
    fraction_bits = 8 * fraction_bytes(digits)
    middle = 0x800000 << fraction_bits
    scale = _fraction_scale(digits)

    def fragment(raw: bytes) -> int:
        number = int.from_bytes(raw, "big") - middle
        size = abs(number)
        whole = size >> fraction_bits
        seconds = (whole >> 12) * 3600 + (whole >> 6 & 63) * 60 + (whole & 63)
        micros = seconds * 1_000_000 + (size & (1 << fraction_bits) - 1) * scale
        return micros if number >= 0 else -micros

    return fragment


def fraction_bytes(digits: int) -> int:
    return (digits + 1) // 2


def fraction_text(micros: int, digits: int) -> str:
    return f".{micros:06d}"[: digits + 1] if digits else ""


def _fraction_scale(digits: int) -> int:
    """Microseconds per unit of the stored fraction: hundredths, ten-thousandths or millionths."""
    return int(10 ** (6 - 2 * fraction_bytes(digits)))


# The same values as the server writes them in a result, for snapshots.


def date_from_text(text: str, lost: Lost) -> int | str:
    return days(int(text[:4]), int(text[5:7]), int(text[8:10]), lost)


def datetime_from_text(text: str, digits: int, lost: Lost) -> int | str:
    first = days(int(text[:4]), int(text[5:7]), int(text[8:10]), "" if lost is None else lost)
    if isinstance(first, str):
        return first or f'"{text}"'
    seconds = first * 86400 + int(text[11:13]) * 3600 + int(text[14:16]) * 60 + int(text[17:19])
    micros = int(text[20:].ljust(6, "0")) if len(text) > 20 else 0
    return seconds * 1_000_000 + micros if digits > 3 else seconds * 1000 + micros // 1000


def timestamp_from_text(text: str, lost: Lost) -> str:
    if text.startswith("0000-00-00"):
        zero = f'"{text}"' if lost is None else lost
        return '"1970-01-01T00:00:00Z"' if zero == "0" else zero
    return f'"{text[:10]}T{text[11:]}Z"'


def time_from_text(text: str) -> int:
    hours, minutes, rest = text.lstrip("-").split(":")
    seconds, _, fraction = rest.partition(".")
    micros = (int(hours) * 3600 + int(minutes) * 60 + int(seconds)) * 1_000_000
    micros += int(fraction.ljust(6, "0")) if fraction else 0
    return -micros if text.startswith("-") else micros


def packed_text(is_time: bool, is_date: bool, raw: bytes) -> str:
    """A date or time inside of a JSON document: eight bytes, the last three of them microseconds."""
    if len(raw) != 8:
        raise ValueError("a time has another length than eight bytes")
    packed = int.from_bytes(raw, "little", signed=True)
    sign = "-" if packed < 0 else ""
    whole, micros = divmod(abs(packed), 1 << 24)
    clock = f"{whole >> 6 & 63:02d}:{whole & 63:02d}.{micros:06d}"
    if is_time:
        return f"{sign}{whole >> 12 & 1023:02d}:{clock}"
    day, month = whole >> 17 & 31, (whole >> 22) % 13
    date_text = f"{(whole >> 22) // 13:04d}-{month:02d}-{day:02d}"
    return date_text if is_date else f"{date_text} {whole >> 12 & 31:02d}:{clock}"
