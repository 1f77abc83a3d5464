"""Row events: many row images of one table, decoded by a function written for that table.

| part              | what it holds                                                              |
|-------------------|----------------------------------------------------------------------------|
| 6 + 2 bytes       | table id, flags                                                            |
| 2 + n (version 2) | extra data, the length counting its own two bytes                          |
| packed integer    | number of columns                                                          |
| bitmap            | columns in the images; for updates two: before, after                      |
| images            | per row: NULL bitmap over the columns that are there, then their values    |

A table's decoder is Python source made from its fields, once per shape of the table: runs of columns
with fixed size are one `struct` call, and a row without NULLs takes no test per column. That is what
makes it several times faster than a loop over columns with a call each.

An image is a tuple of JSON fragments, one per column of the table. A column that the server left out of
an after image did not change: it has the value from the before image, if that has one, and otherwise
the fragment UNAVAILABLE, never null.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from headwater.capture.envelope import UNAVAILABLE
from headwater.capture.errors import BinlogUnreadable
from headwater.capture.mysql import events
from headwater.capture.mysql.columns import Field
from headwater.capture.mysql.events import packed_integer

Image = tuple[Any, ...]
Part = tuple[int, list[Image]]
"""What kind of event, and the images of its rows."""
ReadImages = Callable[[bytes, int, int, "list[Image]"], None]

WRITES = frozenset((23, 30, 166, 169))
UPDATES = frozenset((24, 31, 167, 170))
DELETES = frozenset((25, 32, 168, 171))
ALL = WRITES | UPDATES | DELETES
_COMPRESSED = frozenset(range(166, 172))
_VERSION_2 = frozenset((30, 31, 32, 169, 170, 171))


class RowDecoder:
    """Reads the row events of one table at one moment of its schema."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self._fields = tuple(fields)
        self._readers: dict[tuple[bytes, bytes], ReadImages] = {}
        # By the bytes from the number of columns to the bitmaps, as events of one table repeat them.
        self._known: dict[bytes, ReadImages] = {}
        count = 1 if len(fields) < 251 else 3
        size = (len(fields) + 7) // 8
        self._sizes = {23: count + size, 24: count + 2 * size, 25: count + size}

    def parts(self, kind: int, data: bytes, start: int, end: int) -> list[Part]:
        """What an event does to rows, in its order."""
        return [(kind, self.images(kind, data, start, end))]

    def images(self, kind: int, data: bytes, start: int, end: int) -> list[Image]:
        """The images of an event, whose body begins at `start`; of an update: before, after, in turn."""
        images: list[Image] = []
        size = self._sizes.get(kind)
        if size is None:
            data, at, end, before, after = self._bitmaps(kind, data, start, end)
            self._reader(before, after)(data, at, end, images)
            return images
        at = start + 8
        shape = data[at : at + size]
        read = self._known.get(shape)
        if read is None:
            _, _, _, before, after = self._bitmaps(kind, data, start, end)
            read = self._known[shape] = self._reader(before, after)
        read(data, at + size, end, images)
        return images

    def _bitmaps(
        self, kind: int, data: bytes, start: int, end: int
    ) -> tuple[bytes, int, int, bytes, bytes]:
        if kind == events.PARTIAL_UPDATE:
            raise BinlogUnreadable(
                "an update in the binary log has only parts of a JSON document",
                hint="SET GLOBAL binlog_row_value_options = '' (and reconnect clients), "
                "then take the snapshot again (--resnapshot)",
            )
        at = start + 8
        if kind in _VERSION_2:
            at += int.from_bytes(data[at : at + 2], "little")
        count, at = packed_integer(data, at)
        if count != len(self._fields):
            raise BinlogUnreadable(
                f"a row event has {count} columns, its table map {len(self._fields)}"
            )
        size = (count + 7) // 8
        before, at = data[at : at + size], at + size
        after = b""
        if kind in UPDATES:
            after, at = data[at : at + size], at + size
        if at > end:
            raise BinlogUnreadable("a row event of the binary log is cut short")
        if kind in _COMPRESSED:
            data = events.uncompress(data, at, end)
            at, end = 0, len(data)
        return data, at, end, before, after

    def _reader(self, before: bytes, after: bytes) -> ReadImages:
        reader = self._readers.get((before, after))
        if reader is None:
            shapes = [_present(before, len(self._fields))]
            if after:
                shapes.append(_present(after, len(self._fields)))
            reader = self._readers[before, after] = _compile(self._fields, shapes)
        return reader


def _present(bitmap: bytes, count: int) -> list[bool]:
    bits = int.from_bytes(bitmap, "little")
    return [bool(bits >> place & 1) for place in range(count)]


def _compile(fields: tuple[Field, ...], shapes: list[list[bool]]) -> ReadImages:
    """Write and compile the function that reads images of these shapes, in turn, to the end."""
    names: dict[str, Any] = {"damaged": _damaged, "error": struct.error}
    lines = ["def read(b, p, end, out):", " add = out.append", " try:", "  while p < end:"]
    known = [False] * len(fields)
    for shape in shapes:
        # In the image of before and after, v3 is the same name: what is not read again stays.
        known = [old or new for old, new in zip(known, shape, strict=True)]
        lines += _image(fields, shape, known, names)
    lines += [
        " except (error, IndexError, UnicodeDecodeError) as e:",
        "  damaged(e)",
        " if p != end: damaged(None)",
    ]
    exec("\n".join(lines), names)
    return names["read"]


def _damaged(error: Exception | None) -> None:
    raise BinlogUnreadable(
        f"the values of a row do not end where its event does ({error or 'lengths disagree'}): "
        "the table's columns are not those that the binary log was written with",
        hint="SET GLOBAL binlog_row_metadata = FULL, then take the snapshot again (--resnapshot)",
    )


def _image(
    fields: tuple[Field, ...], shape: list[bool], known: list[bool], names: dict[str, Any]
) -> list[str]:
    there = [place for place, present in enumerate(shape) if present]
    null_bytes = (len(there) + 7) // 8
    lines = []
    if null_bytes == 1:
        lines.append("   n = b[p]")
    else:
        lines.append(f"   n = int.from_bytes(b[p:p+{null_bytes}], 'little')")
    lines.append(f"   p += {null_bytes}")
    lines.append("   if n == 0:" if there else "   if 1:")
    lines += _straight(fields, there, names) or ["    pass"]
    if there:
        lines.append("   else:")
        for bit, place in enumerate(there):
            lines.append(f"    if n & {1 << bit}: v{place} = 'null'")
            lines.append("    else:")
            lines += ["  " + line for line in _straight(fields, [place], names)]
    shown = "".join(f"v{place}, " if present else "gone, " for place, present in enumerate(known))
    names["gone"] = UNAVAILABLE
    lines.append(f"   add(({shown}))")
    return lines


def _straight(fields: tuple[Field, ...], places: list[int], names: dict[str, Any]) -> list[str]:
    """The columns at these places, none of them NULL, one after the other."""
    lines: list[str] = []
    run: list[int] = []
    for place in [*places, None]:
        if place is not None and fields[place].code:
            run.append(place)
            continue
        lines += _fixed(fields, run, names)
        run = []
        if place is not None:
            lines += _counted(fields[place], place, names)
    return lines


def _fixed(fields: tuple[Field, ...], run: list[int], names: dict[str, Any]) -> list[str]:
    if not run:
        return []
    layout = struct.Struct("<" + "".join(fields[place].code for place in run))
    unpack = f"u{run[0]}_{run[-1]}"
    names[unpack] = layout.unpack_from
    targets = "".join(f"v{place}, " for place in run)
    lines = [f"    {targets}= {unpack}(b, p)", f"    p += {layout.size}"]
    for place in run:
        convert = fields[place].convert
        if convert is not None:
            names[f"c{place}"] = convert
            lines.append(f"    v{place} = c{place}(v{place})")
    return lines


def _counted(field: Field, place: int, names: dict[str, Any]) -> list[str]:
    size = field.length_bytes
    assert size and field.convert is not None, "a field has a fixed size or a length before it"
    names[f"c{place}"] = field.convert
    length = "b[p]" if size == 1 else f"int.from_bytes(b[p:p+{size}], 'little')"
    return [
        f"    q = p + {size} + {length}",
        f"    v{place} = c{place}(b[p+{size}:q])",
        "    p = q",
    ]
