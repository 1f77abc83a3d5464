"""What goes over the wire. Pure; big endian; one packet is one datagram.

    0   4   magic "HWM2"
    4   1   kind: 1 data, 2 heartbeat, 3 ask
    5   1   flags; data: 1 has a key, 2 has a value; heartbeat: 1 the session ends here
    6   2   count of headers (data), of ranges (ask), of earlier sessions (heartbeat)
    8   8   session: milliseconds of its start << 20 | random
    16  8   sequence: of the message (data), the last one sent (heartbeat), 0 (ask)
    24  8   oldest sequence that the sender still held when it sent this; 0 (ask)
    32  8   made: microseconds since 1970, when this was first sent
    40  8   origin: the address (4 bytes from the second on) and port (2) that it is sent from
    48  16  seal: BLAKE2b over all the rest, with the shared secret as its key
    64      data: timestamp_ms 8, key length 4, value length 4, key, value,
            then per header: name length 2, value length 4 (signed; -1: null), name, value
            ask: per range: first 8, last 8 (both included)
            heartbeat: per earlier session of this sender, oldest first: session 8, its last sequence 8

Invariants:
- Sequences of a session must begin at 1 and have no holes.
- A repair must be the packet as it was sent at first, byte for byte; so its `oldest` may be out of date, and
  only a larger one says something new.
- A packet that is not all of this, to the last byte, must be refused as a whole.
- Seals must be compared in a time that does not depend on them. Copies: see `replay_window`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from hmac import compare_digest
from typing import NamedTuple

PACKET_BYTES_MAX = 65_507
"""What IPv4 and UDP carry at most."""
ASKED_MAX = 256
"""Sequences in one ask, all ranges together: what a sender answers at most, and a receiver asks for."""
HEAD = struct.Struct(">4sBBHQQQQQ")
SEAL_BYTES = 16
BODY_AT = HEAD.size + SEAL_BYTES
_MAGIC = b"HWM2"
_DATA, _HEARTBEAT, _ASK = 1, 2, 3
_HAS_KEY, _HAS_VALUE, _ENDS = 1, 2, 1
_LENGTHS = struct.Struct(">qII")
_HEADER = struct.Struct(">Hi")
_RANGE = struct.Struct(">QQ")


Ranges = tuple[tuple[int, int], ...]


class Unreadable(Exception):
    """Not one of our packets, or sealed with another secret."""


class TooLarge(Exception):
    """The message does not fit into a packet."""


class Message(NamedTuple):
    """What is carried: a record without its place."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = 0


class Stamp(NamedTuple):
    """When a packet was made, and where it is sent from."""

    made_us: int
    origin: int


NO_STAMP = Stamp(0, 0)


@dataclass(frozen=True, slots=True)
class Data:
    session: int
    sequence: int
    oldest: int
    message: Message
    stamp: Stamp = NO_STAMP


@dataclass(frozen=True, slots=True)
class Heartbeat:
    session: int
    last: int
    oldest: int
    ends: bool = False
    previous: Ranges = ()
    """The sender's sessions before this one, and how far each came: nobody will repair them any more."""
    stamp: Stamp = NO_STAMP


@dataclass(frozen=True, slots=True)
class Ask:
    session: int
    ranges: Ranges
    stamp: Stamp = NO_STAMP


Packet = Data | Heartbeat | Ask


def encode(packet: Packet, secret: bytes = b"", bytes_max: int = PACKET_BYTES_MAX) -> bytes:
    """Raises TooLarge."""
    match packet:
        case Data():
            message = packet.message
            flags = _HAS_KEY * (message.key is not None) | _HAS_VALUE * (message.value is not None)
            head = HEAD.pack(
                _MAGIC, _DATA, flags, len(message.headers), packet.session, packet.sequence,
                packet.oldest, *packet.stamp,
            )  # fmt: skip
            body = _body(message)
        case Heartbeat():
            flags, count = _ENDS * packet.ends, len(packet.previous)
            head = HEAD.pack(
                _MAGIC, _HEARTBEAT, flags, count, packet.session, packet.last, packet.oldest,
                *packet.stamp,
            )  # fmt: skip
            body = _pairs(packet.previous)
        case Ask():
            head = HEAD.pack(
                _MAGIC, _ASK, 0, len(packet.ranges), packet.session, 0, 0, *packet.stamp
            )
            body = _pairs(packet.ranges)
    if BODY_AT + len(body) > bytes_max:
        raise TooLarge(f"{BODY_AT + len(body)} bytes, and a packet holds {bytes_max}")
    return head + _seal(head, body, secret) + body


def decode(datagram: bytes, secret: bytes = b"") -> Packet:
    """Raises Unreadable."""
    if len(datagram) < BODY_AT:
        raise Unreadable("it is too short")
    head, seal, body = datagram[: HEAD.size], datagram[HEAD.size : BODY_AT], datagram[BODY_AT:]
    magic, kind, flags, count, session, sequence, oldest, *made = HEAD.unpack(head)
    stamp = Stamp(*made)
    if magic != _MAGIC:
        raise Unreadable("it does not begin with HWM2")
    if not compare_digest(seal, _seal(head, body, secret)):
        raise Unreadable("it is damaged, or sealed with another secret")
    if kind == _DATA and sequence and 0 < oldest <= sequence:
        return Data(session, sequence, oldest, _message(flags, count, body), stamp)
    if kind in (_HEARTBEAT, _ASK) and len(body) == count * _RANGE.size:
        pairs = tuple(_RANGE.iter_unpack(body))
        if kind == _HEARTBEAT and 0 < oldest <= sequence + 1:
            return Heartbeat(session, sequence, oldest, bool(flags & _ENDS), pairs, stamp)
        if kind == _ASK and all(0 < first <= last for first, last in pairs):
            return Ask(session, pairs, stamp)
    raise Unreadable("its fields contradict each other")


def _seal(head: bytes, body: bytes, secret: bytes) -> bytes:
    seal = blake2b(head, key=secret, digest_size=SEAL_BYTES)
    seal.update(body)
    return seal.digest()


def _pairs(pairs: Ranges) -> bytes:
    return b"".join(_RANGE.pack(*each) for each in pairs)


def _body(message: Message) -> bytes:
    key, value = message.key or b"", message.value or b""
    parts = [_LENGTHS.pack(message.timestamp_ms, len(key), len(value)), key, value]
    for name, content in message.headers:
        written = name.encode()
        parts += (
            _HEADER.pack(len(written), -1 if content is None else len(content)),
            written,
            content or b"",
        )
    return b"".join(parts)


def _message(flags: int, count: int, body: bytes) -> Message:
    try:
        timestamp_ms, key_length, value_length = _LENGTHS.unpack_from(body)
        value_at = _LENGTHS.size + key_length
        end = value_at + value_length
        headers, read = _headers(body, end, count)
    except (struct.error, UnicodeDecodeError):
        raise Unreadable("it ends too early") from None
    has_key, has_value = bool(flags & _HAS_KEY), bool(flags & _HAS_VALUE)
    if read != len(body) or (key_length and not has_key) or (value_length and not has_value):
        raise Unreadable("its lengths contradict each other")
    return Message(
        value=body[value_at:end] if has_value else None,
        key=body[_LENGTHS.size : value_at] if has_key else None,
        headers=headers,
        timestamp_ms=timestamp_ms,
    )


def _headers(body: bytes, at: int, count: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    found: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name_length, length = _HEADER.unpack_from(body, at)
        at += _HEADER.size
        if length < -1 or at + name_length + max(length, 0) > len(body):
            raise Unreadable("it ends too early")
        name = body[at : at + name_length].decode()
        at += name_length
        found.append((name, None if length < 0 else body[at : at + length]))
        at += max(length, 0)
    return tuple(found), at


def ranges_of(sequences: Sequence[int]) -> Ranges:
    """Rising sequences as ranges, both ends included."""
    found: list[tuple[int, int]] = []
    for each in sequences:
        if found and found[-1][1] + 1 == each:
            found[-1] = (found[-1][0], each)
        else:
            found.append((each, each))
    return tuple(found)
