"""One view: how it is, its rows, how fresh it was over time, and the function that makes it."""

from __future__ import annotations

import inspect
import json
from functools import partial

from nicegui import ui
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from headwater.client.errors import BadRequest, NotThere
from headwater.console import elements, live
from headwater.console.cards import Cards
from headwater.console.charts import Chart
from headwater.console.context import Visit
from headwater.console.forms.views import ViewCard, view_command
from headwater.console.live import loaded
from headwater.console.pages import Page
from headwater.console.values import one_line
from headwater.console.watching.queries import QueryNow
from headwater.console.watching.rows import LIMIT, Asked, Found, read, read_past
from headwater.console.watching.views import ViewNow
from headwater.pipelines.declarations import View
from headwater.secrets import Environment

EVERY_S = 2.0
NEVER_S = 86_400.0
"""Rows are read when somebody asks."""
_CELL = '<q-td :props="props" class="hw-mono hw-small hw-row-cell">{{ props.value }}</q-td>'


async def show_one(visit: Visit) -> None:
    name = visit.params["view"]
    with ui.element("div").classes("hw-head"):
        elements.heading(name, "View")
        ui.link("All views", "/views").classes("hw-button-link")
    found = await loaded(partial(_named, visit, name))
    cards = Cards[ViewNow](
        lambda v: v.name, lambda v: ViewCard(visit, v, chosen=False), "hw-grid-one"
    )
    live.keep(lambda: [_named(visit, name)], cards.draw, EVERY_S)
    with elements.card("Freshness over time"):
        chart = Chart("freshness, seconds", "records behind")
        none = ui.label("Its query has not told of itself lately.").classes("hw-soft hw-small")

    def draw(query: QueryNow | None) -> None:
        points = freshness_of(query)
        none.set_visibility(not points)
        chart.set(*(list(each) for each in zip(*points, strict=True))) if points else None

    live.keep(lambda: visit.context.watch.queries.of(name), draw, EVERY_S)
    if found.declared is not None:
        _Rows(visit, found.declared)
        _source(found.declared)


def _named(visit: Visit, name: str) -> ViewNow:
    for each in visit.context.watch.views.now():
        if each.name == name:
            return each
    raise NotThere(f"there is no view {name!r}", hint="the page of views shows those that exist")


def freshness_of(query: QueryNow | None) -> list[tuple[float, float, float]]:
    """When, how fresh in seconds, and how many records behind; pure.

    Without a batch since the record before: by how much it is behind, which is nothing where nothing waits.
    """
    return [
        (
            float(each["at_ms"]),
            float(
                each["freshness_seconds"] if each.get("batches") else each.get("lag_seconds") or 0
            ),
            float(each.get("lag_records") or 0),
        )
        for each in (query.history if query else ())
        if each.get("freshness_seconds") is not None
    ]


class _Rows:
    """Asked for by hand: a store is not read again and again for a page that is left open."""

    def __init__(self, visit: Visit, view: View) -> None:
        self._visit, self._view = visit, view
        self._after: str | None = None
        self._table: ui.table | None = None
        with elements.card("Rows"):
            with ui.element("div").classes("hw-tools"):
                self._key = ui.input(f"Key ({':'.join(view.key) or 'none'})")
                self._words = ui.input("Search")
                self._position = ui.input("Not before position")
                self._position.props["placeholder"] = "orders:0=17"
                self._as_of = ui.input("As of position or time")
                self._as_of.props["placeholder"] = "2026-11-15T15:00"
                for each in (self._key, self._words, self._position, self._as_of):
                    each.props("dense outlined clearable").classes("hw-goto")
                    each.on("keydown.enter", self._first)
                ui.button("Show", on_click=self._first).props("no-caps outline")
                self._next = ui.button("Next rows", on_click=self._more).props("no-caps flat")
            self._next.set_visibility(False)
            self._computing = ui.label("Computing the rows as they were …").props('role="status"')
            self._computing.classes("hw-soft hw-small").set_visibility(False)
            self._kept = live.keep(self._read, self._draw, NEVER_S)

    def _read(self) -> Found:
        as_of, asked = (self._as_of.value or "").strip(), self._asked()
        project = self._visit.context.project
        if not as_of:
            return read(self._view, asked)
        if project is None or asked.words or asked.position:
            raise BadRequest(
                "rows of the past can be asked for by key, or all",
                hint="leave out the words and the other position",
            )
        options = [f"--as-of={as_of}", f"--limit={LIMIT}", "--running"]
        options += [f"--key={asked.key}"] if asked.key else []
        secrets = Environment()
        bootstrap = self._visit.context.bootstrap
        words = view_command(project, bootstrap, "rows", self._view.name, tuple(options), secrets)
        return read_past(words, secrets)

    def _asked(self) -> Asked:
        said = (self._key.value, self._words.value, self._position.value)
        key, words, position = ((each or "").strip() for each in said)
        return Asked(key, words, self._after, position)

    async def _first(self) -> None:
        self._after = None
        self._computing.set_visibility(bool((self._as_of.value or "").strip()))
        await self._kept.again()
        self._computing.set_visibility(False)

    async def _more(self) -> None:
        await self._kept.again()

    def _draw(self, found: Found) -> None:
        if self._table is None:
            self._said = ui.label("").classes("hw-soft hw-small hw-wrap").props('role="status"')
            self._table = ui.table(columns=[], rows=[], row_key="#", pagination=0)
            self._table.classes("hw-list hw-rows").props("flat dense hide-bottom")
            self._table.add_slot("body-cell", _CELL)
        names = list(dict.fromkeys(name for row in found.rows for name in row))
        self._table.columns = [
            {"name": name, "label": name, "field": name, "align": "left"} for name in names
        ]
        self._table.rows = [
            {"#": number} | {name: _cell(value) for name, value in row.items()}
            for number, row in enumerate(found.rows)
        ]
        self._table.set_visibility(bool(found.rows))
        self._after = found.after
        self._next.set_visibility(found.after is not None)
        count = f"{len(found.rows)} rows, and there are more" if found.after else _rows(found)
        is_at = "as they were at" if found.is_past else "the view is at"
        said = f"{count}; {is_at} {found.position or 'no position yet'}"
        self._said.set_text(" ".join((f"{said}.", *found.remarks)) if found.remarks else said)


def _rows(found: Found) -> str:
    return "1 row" if len(found.rows) == 1 else f"{len(found.rows)} rows"


def _cell(value: object) -> str:
    return one_line(value if isinstance(value, str) else json.dumps(value, default=str))


def _source(view: View) -> None:
    with elements.card("Query"):
        ui.label(view.place).classes("hw-soft hw-mono hw-small hw-wrap")
        try:
            text = inspect.getsource(view.function)
        except (OSError, TypeError):
            ui.label("Its source cannot be read any more.").classes("hw-soft")
            return
        html = highlight(text, PythonLexer(), HtmlFormatter(nowrap=True))
        ui.html(str(html), sanitize=False, tag="pre").classes("hw-value hw-code").props(
            "tabindex=0"
        )


PAGES = [Page("/views/{view}", "View", show_one)]
