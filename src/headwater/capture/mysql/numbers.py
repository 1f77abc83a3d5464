"""DECIMAL, FLOAT and BIT: from the binary log's bytes to exact text; pure, called by `values`.

DECIMAL(p, s) is stored in groups of nine digits, four bytes each, the odd ones at both ends in fewer;
big-endian; the highest bit is flipped, and a negative number has all bits inverted.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from decimal import Decimal

from headwater.capture.errors import BinlogUnreadable

_GROUP_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


def decimal_bytes(precision: int, scale: int) -> int:
    whole = precision - scale
    return sum(4 * (n // 9) + _GROUP_BYTES[n % 9] for n in (whole, scale))


def decimals(precision: int, scale: int) -> Callable[[bytes], str]:
    """The number as text, with all its decimals and no other zeros: 12.50, -0.07."""
    total = decimal_bytes(precision, scale)
    flip, ones = 0x80 << 8 * (total - 1), (1 << 8 * total) - 1
    whole = precision - scale
    if whole <= 9 and 0 < scale <= 9:
        return _short_decimals(scale, flip, ones)
    # Each group: how far it lies from the right, its bits, what its digits are worth.
    parts = []
    shift, digits_left = 8 * total, precision
    for digits, size in _groups(precision, scale):
        shift -= 8 * size
        digits_left -= digits
        parts.append((shift, (1 << 8 * size) - 1, 10**digits_left))

    def text(raw: bytes) -> str:
        packed = int.from_bytes(raw, "big") ^ flip
        negative = packed & flip
        if negative:
            packed ^= ones
        number = sum([(packed >> shift & mask) * worth for shift, mask, worth in parts])
        return placed(number, scale, bool(negative))

    return text


def _short_decimals(scale: int, flip: int, ones: int) -> Callable[[bytes], str]:
    """One group before the point and one after it: most columns of money."""
    shift = 8 * _GROUP_BYTES[scale]
    mask = (1 << shift) - 1
    shape = f"%d.%0{scale}d"

    def text(raw: bytes) -> str:
        packed = int.from_bytes(raw, "big") ^ flip
        if packed & flip:
            packed ^= ones
            return "-" + shape % (packed >> shift, packed & mask)
        return shape % (packed >> shift, packed & mask)

    return text


def placed(number: int, scale: int, negative: bool) -> str:
    """Put the point where it belongs."""
    sign = "-" if negative and number else ""
    if not scale:
        return f"{sign}{number}"
    digits = str(number).zfill(scale + 1)
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}"


def _groups(precision: int, scale: int) -> list[tuple[int, int]]:
    whole = precision - scale
    before = [(whole % 9, _GROUP_BYTES[whole % 9])] if whole % 9 else []
    after = [(scale % 9, _GROUP_BYTES[scale % 9])] if scale % 9 else []
    return [*before, *[(9, 4)] * (whole // 9 + scale // 9), *after]


def precise(text: str) -> str:
    """Debezium's `precise`: the digits without point as a big-endian two's complement, in base64."""
    number = int(text.replace(".", ""))
    size = ((number if number >= 0 else ~number).bit_length() + 8) // 8
    raw = number.to_bytes(size, "big", signed=True)
    return f'"{base64.b64encode(raw).decode()}"'


_FLOAT = struct.Struct("<f")


def shortest_float(value: float) -> str:
    """The fewest digits that give the same 32-bit number again."""
    raw = _FLOAT.pack(value)
    for digits in (6, 7, 8):
        text = f"{value:.{digits}g}"
        if _FLOAT.pack(float(text)) == raw:
            return repr(float(text))
    return repr(float(f"{value:.9g}"))


_PLAIN_DIGITS = 15
"""A number of more digits before the point, or zeros behind it, is written with an exponent."""


def server_double(value: float) -> str:
    """A double as MySQL writes it in JSON: the fewest digits, 0.00001, 1.5e20, 1e-16, 2.0."""
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int), "JSON has no infinity"
    text, point = "".join(map(str, digits)), len(digits) + exponent
    minus = "-" if sign else ""
    if not -_PLAIN_DIGITS < point <= _PLAIN_DIGITS:
        rest = f".{text[1:]}" if len(text) > 1 else ""
        return f"{minus}{text[0]}{rest}e{point - 1}"
    if point <= 0:
        return f"{minus}0.{'0' * -point}{text}" if text != "0" else f"{minus}0.0"
    return f"{minus}{text[:point].ljust(point, '0')}.{text[point:] or '0'}"


def vector(raw: bytes) -> str:
    """[1.5,-2.0]"""
    if len(raw) % _FLOAT.size:
        raise BinlogUnreadable("a vector in the binary log has part of a number")
    return f"[{','.join(shortest_float(value) for (value,) in _FLOAT.iter_unpack(raw))}]"


def bits(count: int) -> Callable[[bytes], str]:
    """BIT(1) is true or false; more bits are base64 of the little-endian bytes, as Debezium has them."""
    if count == 1:
        return lambda raw: "true" if raw[-1] & 1 else "false"
    return lambda raw: f'"{base64.b64encode(raw[::-1]).decode()}"'
