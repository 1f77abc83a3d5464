"""Tables of MariaDB that keep their old rows (WITH SYSTEM VERSIONING): readers get what a SELECT shows.

In the log every version is a row of its own: its key has a column more, which says until when it holds, and a
delete is an update of that column. Often this column and the one for the begin are hidden, from a SELECT and
from the information schema. Here a version that no longer holds is no row, the column is no part of the key,
and hidden columns are left out. Called by `tables` for every table map, and by `schema`.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.capture.mysql import rows, values
from headwater.capture.mysql import table_map as wire
from headwater.capture.mysql.columns import Description, Field, Style
from headwater.capture.mysql.rows import Image, Part, RowDecoder

ROW_START, ROW_END = "row_start", "row_end"
"""What the columns are called where nobody has named them."""
_FOR_EVER = (
    '"2038-01-19T03:14:07.999999Z"',
    '"2106-02-07T06:28:15.999999Z"',  # since 11.5
)
_Logged = tuple[tuple[Description, ...], tuple[int, ...]]


def as_shown(
    logged: _Logged, now: Sequence[Description], said: str, style: Style
) -> tuple[tuple[Description, ...], tuple[int, ...], CurrentRows | None]:
    """The columns and the key that readers have, and what reads the rows, where it is something of its own.

    `now`: the columns that the server shows; `said`: what it calls the end in the table as it is now."""
    columns, key = logged
    own = {ROW_START, ROW_END} - {column.name for column in now}
    names = [column.name for column in columns]
    hidden = [place for place, name in enumerate(names) if name in own and own <= {*names}]
    end = -1
    if said in names or (ROW_END in own and hidden):
        end = names.index(said if said in names else ROW_END)
    # It is part of every key: so no table is taken for one that only has columns of such names.
    is_end = end in key or (not key and said in names)
    if not is_end or columns[end].wire.type != wire.TIMESTAMP2:
        return columns, key, None
    kept = [place for place, _ in enumerate(columns) if place not in hidden]
    decoder = CurrentRows([values.field(column, style) for column in columns], end, kept)
    return (
        tuple(columns[place] for place in kept),
        tuple(kept.index(place) for place in key if place != end),
        decoder,
    )


class CurrentRows:
    """Reads row events as if there were no other versions."""

    def __init__(self, fields: Sequence[Field], end: int, shown: Sequence[int]) -> None:
        self._decoder = RowDecoder(fields)
        self._end, self._shown = end, shown

    def images(self, kind: int, data: bytes, start: int, end: int) -> list[Image]:
        found = self._decoder.images(kind, data, start, end)
        return [self._without_hidden(image) for image in found]

    def parts(self, kind: int, data: bytes, start: int, end: int) -> list[Part]:
        images = self._decoder.images(kind, data, start, end)
        if kind not in rows.UPDATES:
            kept = [self._without_hidden(image) for image in images if self._holds(image)]
            return [(kind, kept)] if kept else []
        found: list[Part] = []
        for before, after in zip(images[::2], images[1::2], strict=True):
            shown = self._without_hidden(before), self._without_hidden(after)
            if self._holds(before) and self._holds(after):
                found.append((kind, [*shown]))
            elif self._holds(before):
                found.append((_DELETE, [shown[0]]))
            elif self._holds(after):
                found.append((_WRITE, [shown[1]]))
        return found

    def _holds(self, image: Image) -> bool:
        return image[self._end] in _FOR_EVER

    def _without_hidden(self, image: Image) -> Image:
        return tuple(image[place] for place in self._shown)


_WRITE, _DELETE = min(rows.WRITES), min(rows.DELETES)
