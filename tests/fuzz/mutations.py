"""What is done to a valid request: bits, lengths, counts, order, and worse.

A mutation takes the bytes of a request (without the length before it) and returns others; `framed` puts
a length before them that is a lie now and then.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence

_LENGTHS = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
_VARINTS = (
    b"\x00",
    b"\x01",
    b"\x7f",
    b"\xff\x7f",
    b"\xff\xff\xff\xff\x07",
    b"\xff" * 5,
    b"\xff" * 9,
)
_HEADER_BYTES = 10

Mutation = Callable[[bytearray, random.Random, Sequence[bytes]], bytearray]


def _flip_bits(data: bytearray, dice: random.Random, others: Sequence[bytes]) -> bytearray:
    for _ in range(dice.choice((1, 1, 1, 2, 8))):
        data[_place(data, dice)] ^= 1 << dice.randrange(8)
    return data


def _truncate(data: bytearray, dice: random.Random, others: Sequence[bytes]) -> bytearray:
    return data[: dice.randrange(len(data))]


def _overwrite(data: bytearray, dice: random.Random, others: Sequence[bytes]) -> bytearray:
    at, size = _place(data, dice), dice.choice((1, 2, 4, 8, 16))
    filler = dice.choice((b"\xff", b"\x00", b"\x7f", b"\x80", dice.randbytes(1)))
    data[at : at + size] = filler * min(size, len(data) - at)
    return data


def _lie_about_a_length(data: bytearray, dice: random.Random, others: Sequence[bytes]) -> bytearray:
    at, value = _place(data, dice), dice.choice(_LENGTHS)
    packed = struct.pack(">I", value) if dice.random() < 0.5 else struct.pack(">H", value & 0xFFFF)
    data[at : at + len(packed)] = packed
    return data


def _lie_about_a_count(data: bytearray, dice: random.Random, others: Sequence[bytes]) -> bytearray:
    at = _place(data, dice)
    data[at : at + 1] = dice.choice(_VARINTS)
    return data


def _count_up_or_down(data: bytearray, dice: random.Random, others: Sequence[bytes]) -> bytearray:
    at = _place(data, dice)
    data[at] = (data[at] + dice.choice((-1, 1, 2))) % 256
    return data


def _remove(data: bytearray, dice: random.Random, others: Sequence[bytes]) -> bytearray:
    at = _place(data, dice)
    del data[at : at + dice.choice((1, 2, 4, 8, 16))]
    return data


def _insert(data: bytearray, dice: random.Random, others: Sequence[bytes]) -> bytearray:
    at = _place(data, dice)
    data[at:at] = dice.randbytes(dice.choice((1, 2, 4, 8, 64)))
    return data


def _repeat(data: bytearray, dice: random.Random, others: Sequence[bytes]) -> bytearray:
    at, size = _place(data, dice), dice.choice((1, 4, 16, 64))
    data[at:at] = data[at : at + size] * dice.choice((1, 3, 50))
    return data


def _swap_fields(data: bytearray, dice: random.Random, others: Sequence[bytes]) -> bytearray:
    size = dice.choice((1, 2, 4, 8, 16))
    one, other = sorted((_place(data, dice), _place(data, dice)))
    if one + size <= other:
        data[one : one + size], data[other : other + size] = (
            data[other : other + size],
            data[one : one + size],
        )
    return data


def _splice(data: bytearray, dice: random.Random, others: Sequence[bytes]) -> bytearray:
    tail = dice.choice(others)
    return data[: _place(data, dice)] + tail[dice.randrange(len(tail)) :]


def _other_version(data: bytearray, dice: random.Random, others: Sequence[bytes]) -> bytearray:
    (version,) = struct.unpack_from(">h", data, 2)
    struct.pack_into(">h", data, 2, max(version + dice.choice((-1, 1, 2, 5)), 0))
    return data


def _other_api(data: bytearray, dice: random.Random, others: Sequence[bytes]) -> bytearray:
    data[:4] = dice.choice(others)[:4]
    return data


def _garbage_body(data: bytearray, dice: random.Random, others: Sequence[bytes]) -> bytearray:
    data[_HEADER_BYTES:] = dice.randbytes(dice.choice((0, 3, 30, 300)))
    return data


def _garbage(data: bytearray, dice: random.Random, others: Sequence[bytes]) -> bytearray:
    return bytearray(dice.randbytes(dice.choice((8, 12, 50, 1000))))


MUTATIONS: Sequence[Mutation] = (
    *(_flip_bits,) * 4,
    _truncate,
    *(_overwrite,) * 3,
    *(_lie_about_a_length,) * 2,
    *(_lie_about_a_count,) * 2,
    *(_count_up_or_down,) * 3,
    _remove,
    _insert,
    *(_repeat,) * 2,
    *(_swap_fields,) * 3,
    *(_splice,) * 2,
    _other_version,
    _other_api,
    _garbage_body,
    _garbage,
)


def mutated(request: bytes, dice: random.Random, others: Sequence[bytes]) -> bytes:
    """Another request, in most cases a wrong one."""
    data = bytearray(request)
    for _ in range(dice.choice((1, 1, 1, 2))):
        data = dice.choice(MUTATIONS)(data, dice, others)
        if len(data) <= _HEADER_BYTES:
            break
    return bytes(data)


def flipped(request: bytes, dice: random.Random) -> bytes:
    """One bit of it."""
    data = bytearray(request)
    data[_place(data, dice)] ^= 1 << dice.randrange(8)
    return bytes(data)


def framed(data: bytes, dice: random.Random) -> bytes:
    """With its length before it, or, one time in a hundred, another."""
    size = len(data)
    if dice.random() < 0.01:
        size = dice.choice((-1, 0, 7, size - 1, size + 1, 2**31 - 1, 200_000_000, -(2**31)))
    return struct.pack(">i", size) + data


def _place(data: bytearray, dice: random.Random) -> int:
    """Mostly in the body: a broken header is the same for all APIs."""
    if len(data) > _HEADER_BYTES and dice.random() < 0.95:
        return dice.randrange(_HEADER_BYTES, len(data))
    return dice.randrange(len(data))
