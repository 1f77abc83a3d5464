"""A table of all that there is of a kind: a filter above it, and what to say where there is nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nicegui import ui

from headwater.console import elements

Row = dict[str, object]
"""A column or a row, by the names that NiceGUI gives its parts."""


class FilteredTable:
    """`tools`: the line with the filter, for what else belongs there."""

    def __init__(
        self,
        label: str,
        columns: list[Row],
        slots: Mapping[str, str],
        absent: tuple[str, str],
        *,
        key: str = "name",
        filtered: str = "Filter",
        per_page: Sequence[int] = (50, 0),
        pages: str = "",
    ) -> None:
        with ui.element("div").classes("hw-tools") as self.tools:
            words = ui.input(filtered).props("dense outlined clearable").classes("hw-goto")
        with elements.card() as card:
            card.props["aria-label"] = label
            self._table = ui.table(columns=columns, rows=[], row_key=key, pagination=per_page[0])
            self._table.classes("hw-list")
            self._table.props(f'flat :rows-per-page-options="{[*per_page]}"')
            if pages:
                self._table.props(f'rows-per-page-label="{pages}"')
            for name, slot in slots.items():
                self._table.add_slot(f"body-cell-{name}", slot)
            self._table.bind_filter_from(words, "value", lambda value: value or "")
            self._none = elements.absent(*absent)
            self._none.set_visibility(False)

    def draw(self, rows: list[Row]) -> None:
        self._table.rows = rows
        self._table.set_visibility(bool(rows))
        self._none.set_visibility(not rows)
