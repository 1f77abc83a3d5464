"""What the records of groups with epochs have in common: their keys, and the target assignment's value.

key      kind int16 | group | the member's name, or another, for kinds that have one; plain strings
target   version int16 = 0 | epoch int32 | tag 0: timestamp int64
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from headwater.broker.groups.cursor import Cursor
from headwater.broker.groups.modern.flexible import close_value, open_value, plain, tags


@dataclass(frozen=True, slots=True)
class Key:
    kind: int
    group_id: str
    name: str = ""
    """The member, or what else the kind is about."""


@dataclass(frozen=True, slots=True)
class Kinds:
    """The numbers that one type of group gives its records."""

    group: int
    target: int
    member: int
    member_target: int
    current: int
    others_of_group: tuple[int, ...] = ()
    others_named: tuple[int, ...] = ()

    @property
    def of_member(self) -> tuple[int, int, int]:
        """In the order in which they are removed."""
        return self.current, self.member_target, self.member

    def has_name(self, kind: int) -> bool:
        return kind in self.of_member or kind in self.others_named

    def key(self, kind: int, group_id: str, name: str = "") -> bytes:
        parts = [struct.pack(">h", kind), plain(group_id)]
        if self.has_name(kind):
            parts.append(plain(name))
        return b"".join(parts)

    def read_key(self, data: bytes) -> Key | None:
        """The key, or None for a kind of record that is not of this type of group."""
        cursor = Cursor(data)
        kind = cursor.i16()
        named = self.has_name(kind)
        if not named and kind not in (self.group, self.target, *self.others_of_group):
            return None
        key = Key(kind, cursor.string(), cursor.string() if named else "")
        cursor.end()
        return key


def target_value(epoch: int, timestamp: int) -> bytes:
    return struct.pack(">hi", 0, epoch) + tags(struct.pack(">q", timestamp))


def read_target(data: bytes) -> tuple[int, int]:
    """Epoch and time of the target assignment."""
    cursor = open_value(data)
    epoch = cursor.i32()
    tag = close_value(cursor)
    return epoch, tag.i64() if tag else 0
