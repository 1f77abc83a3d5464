"""Record batches that lie: in varints, counts, lengths, numbers, compressed payloads and sequences.

The checksum is right, so that nothing is noticed before the records are looked at. A lie is told here
and there, never everywhere: a batch with one lie gets furthest.
"""

from __future__ import annotations

import random
import struct
from functools import cache

import crc32c

from headwater.record import codecs
from tests.compat.batches import NOW_MS

_VARINTS = (
    b"\x00",
    b"\x01",
    b"\x03",
    b"\x7f",
    b"\x80\x00",
    b"\xff\xff\x03",
    b"\xfe\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x0f",
    b"\xff" * 4 + b"\x7f",
    b"\xff" * 9 + b"\x01",
    b"\xff" * 11,
)
_NUMBERS = (0, -1, -2, 1, 2, 100, 2**31 - 1, -(2**31))
BOMB_BYTES = 80 * 1024 * 1024


def lying_batch(dice: random.Random) -> bytes:
    """A batch with none, one or a few lies."""
    count = dice.choice((1, 2, 3, 40, 300))
    odds = dice.choice((0, 0, 0.3 / count, 1.0 / count, 0.02))
    same = dice.random() < 0.5
    payload = b"".join(_record(dice, number, odds, same) for number in range(count))
    codec = dice.choice((0, 0, 0, 1, 2, 3, 4))
    stored = _stored(dice, codec, payload)
    header = _header(dice, codec, count)
    crc = crc32c.crc32c(header + stored)
    return struct.pack(">qiibI", 0, 49 + len(stored), -1, 2, crc) + header + stored


def _record(dice: random.Random, number: int, odds: float, same: bool) -> bytes:
    def spelt(value: int) -> bytes:
        return dice.choice(_VARINTS) if dice.random() < odds else _varint(value)

    key = b"key-%d" % (number % 7)
    value = bytes(20 if same else dice.choice((0, 5, 70, 300)))
    body = bytearray(b"\0" + spelt(dice.choice((0, 0, 90))) + spelt(number))
    body += spelt(len(key)) + key
    body += spelt(-1) if dice.random() < 0.1 else spelt(len(value)) + value
    headers = dice.choice((0, 0, 0, 1, 2))
    body += spelt(headers)
    for _ in range(headers):
        body += spelt(1) + b"h" + spelt(3) + b"abc"
    return spelt(len(body)) + bytes(body)


def _stored(dice: random.Random, codec: int, payload: bytes) -> bytes:
    if codec and dice.random() < 0.005:
        return _bomb(codec)
    stored = bytearray(codecs.compress(codec, payload))
    if codec and dice.random() < 0.2:
        stored[dice.randrange(len(stored))] ^= 1 << dice.randrange(8)
    return bytes(stored)


@cache
def _bomb(codec: int) -> bytes:
    return codecs.compress(codec, bytes(BOMB_BYTES))


def _header(dice: random.Random, codec: int, count: int) -> bytes:
    fields = {
        "attributes": codec,
        "last_offset_delta": count - 1,
        "base_timestamp": NOW_MS,
        "max_timestamp": NOW_MS + 90,
        "producer_id": dice.choice((-1, -1, dice.randrange(5))),
        "producer_epoch": dice.choice((-1, 0, 0, 1)),
        "base_sequence": dice.choice((-1, 0, 0, dice.randrange(50), 2**31 - 1)),
        "record_count": count,
    }
    if dice.random() < 0.15:
        name = dice.choice(list(fields))
        bits = 15 if name in ("attributes", "producer_epoch") else 31
        fields[name] = max(-(2**bits), min(dice.choice(_NUMBERS), 2**bits - 1))
    return struct.pack(">hiqqqhii", *fields.values())


def _varint(value: int) -> bytes:
    rest = value << 1 if value >= 0 else ~(value << 1)
    out = bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)
    return bytes(out)
