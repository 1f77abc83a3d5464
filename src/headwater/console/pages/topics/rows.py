"""Records as rows of a table: which columns, what stands in a cell, and which row was chosen.

Called by the browser of a topic (`records`) for pages, search results and the live tail alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nicegui import events, ui

from headwater.browse.decoder import Decoder
from headwater.client.records import Record
from headwater.console import sentences
from headwater.console.values import moment, one_line

KEY_CHARACTERS_MAX = 48
_WIDE = {"classes": "hw-only-wide", "headerClasses": "hw-only-wide"}
_COLUMNS: list[dict[str, Any]] = [
    {"name": "place", "label": "Record", "field": "place", "align": "left"},
    {"name": "time", "label": "Time (UTC)", "field": "time", "align": "left", **_WIDE},
    {"name": "key", "label": "Key", "field": "key", "align": "left"},
    {"name": "value", "label": "Value", "field": "value", "align": "left"},
    {"name": "size", "label": "Size", "field": "size", "align": "right", **_WIDE},
]
# A button, so that the keyboard and a screen reader find it; a click anywhere in the row does the same.
_PLACE = """
<q-td :props="props">
  <button type="button" class="hw-open hw-mono" :aria-label="'Open record ' + props.value"
    @click.stop="() => $parent.$emit('open', props.row.place)">{{ props.value }}</button>
  <span class="hw-narrow-line hw-soft hw-small">{{ props.row.time }}</span>
</q-td>
"""
_KEY = """
<q-td :props="props" class="hw-mono hw-clip hw-clip-key">
  <span v-if="props.row.keyless" class="hw-none">no key</span><template v-else>{{ props.value }}</template>
</q-td>
"""
_VALUE = """
<q-td :props="props" class="hw-mono hw-clip hw-clip-value">
  <span v-if="props.row.tombstone" class="hw-none">tombstone</span>
  <template v-else>{{ props.value }}</template>
</q-td>
"""


def place_of(record: Record) -> str:
    """PARTITION:OFFSET, as in links and on the command line."""
    return f"{record.partition}:{record.offset}"


def row_of(record: Record, decoder: Decoder) -> dict[str, Any]:
    """What a row needs, and no more: the record itself stays with the server."""
    key = decoder.decode(record.key, record.topic)
    value = decoder.decode(record.value, record.topic)
    return {
        "place": place_of(record),
        "time": moment(record.timestamp_ms),
        "key": one_line(key.text, KEY_CHARACTERS_MAX),
        "keyless": record.key is None,
        "value": one_line(value.text),
        "tombstone": record.value is None,
        "size": sentences.size(len(record.key or b"") + len(record.value or b"")),
    }


class Rows:
    """The table, and the records behind it."""

    def __init__(self, decoder: Decoder, chosen: Callable[[Record], None]) -> None:
        self._decoder, self._chosen = decoder, chosen
        self.records: list[Record] = []
        self.table = ui.table(columns=_COLUMNS, rows=[], row_key="place")
        self.table.classes("hw-records").props('flat dense :rows-per-page-options="[0]"')
        self.table.props["no-data-label"] = "No records here."
        self.table.add_slot("body-cell-place", _PLACE)
        self.table.add_slot("body-cell-key", _KEY)
        self.table.add_slot("body-cell-value", _VALUE)
        self.table.on("open", self._opened)
        self.table.on("row-click", self._clicked, [[], ["place"], None])

    def show(self, records: list[Record]) -> None:
        """These records, in this order, in place of all others."""
        self.records = records
        self.table.rows = [row_of(each, self._decoder) for each in records]

    def mark(self, place: str) -> None:
        """Show which row is open in the panel."""
        self.table.props[":table-row-class-fn"] = (
            f"row => row.place === '{place}' ? 'hw-chosen' : ''" if place else "row => ''"
        )

    def neighbour(self, place: str, step: int) -> Record | None:
        """The record so many rows below; None where the table ends."""
        places = [place_of(each) for each in self.records]
        at = places.index(place) + step if place in places else -1
        return self.records[at] if 0 <= at < len(self.records) else None

    def _opened(self, event: events.GenericEventArguments) -> None:
        self._open(str(event.args))

    def _clicked(self, event: events.GenericEventArguments) -> None:
        self._open(str(event.args[1]["place"]))

    def _open(self, place: str) -> None:
        for record in self.records:
            if place_of(record) == place:
                self._chosen(record)
                return
