"""Topics: what there is, how large, how fast, and how long it is kept; a topic's own page is below.

One topic: figures, its records, its partitions and its settings; and what may be done with it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from nicegui import ui

from headwater.client import topics
from headwater.client.namespace import is_own
from headwater.client.setting_details import Kind, Place
from headwater.client.topics import Topic
from headwater.console import elements, live
from headwater.console.actions import Action
from headwater.console.addresses import link
from headwater.console.administration import topics as administration
from headwater.console.context import Visit
from headwater.console.filtered_table import FilteredTable
from headwater.console.forms.settings import SettingsTable
from headwater.console.forms.topics import creation_form, topic_buttons
from headwater.console.pages import Page
from headwater.console.pages.topics.publish import publish_dialog
from headwater.console.pages.topics.records import Records
from headwater.console.pages.topics.replay import replay_dialog
from headwater.console.sentences import duration, number, size

_PARTITIONS: list[dict[str, Any]] = [
    {"name": "number", "label": "Partition", "field": "number", "align": "left"},
    {"name": "first", "label": "First offset", "field": "first"},
    {"name": "next", "label": "Next offset", "field": "next"},
    {"name": "records", "label": "Records", "field": "records"},
    {"name": "bytes", "label": "Size", "field": "bytes"},
    {"name": "leader", "label": "Leader", "field": "leader"},
]


def show_one(visit: Visit) -> None:
    name = visit.topic()
    with ui.element("div").classes("hw-head"):
        elements.heading(name)
        with ui.element("div").classes("hw-actions"):
            if not is_own(name):
                publish = publish_dialog(visit, name)
                elements.action(visit, Action.PUBLISH, "Publish", publish.open, icon="edit_note")
            replay = replay_dialog(visit, name)
            elements.action(visit, Action.REPLAY, "Replay", replay.open, icon="replay")
            if not is_own(name):
                topic_buttons(visit, name)
            ui.link("Time travel", link("/time-travel", topic=name)).classes("hw-button-link")
    load = visit.context.history.checked(partial(topics.named, visit.context.log, name))
    live.keep(load, lambda found: about.draw(found), EVERY_S)
    about = _About(visit)
    tabs = ui.tabs().props('dense no-caps align=left aria-label="What to see of the topic"')
    with tabs:
        ui.tab("records", "Records")
        ui.tab("partitions", "Partitions")
        ui.tab("settings", "Settings")
    with ui.tab_panels(tabs, value=visit.query.get("tab", "records"), animated=False):
        with ui.tab_panel("records"):
            Records(visit, name)
        with ui.tab_panel("partitions"), elements.card("Partitions"):
            about.partitions = ui.table(columns=_PARTITIONS, rows=[], row_key="number")
            about.partitions.classes("hw-list").props("flat dense")
        with ui.tab_panel("settings"), elements.card("Settings"):
            SettingsTable(
                visit,
                Place(Kind.TOPIC, name),
                Action.CONFIGURE_TOPIC,
                lambda wanted, dry_run: administration.configure(
                    visit, name, wanted, dry_run=dry_run
                ),
            )


class _About:
    """The figures and the partitions, which change while somebody looks."""

    partitions: ui.table

    def __init__(self, visit: Visit) -> None:
        self._visit = visit
        with elements.card() as card, ui.element("div").classes("hw-figures"):
            card.props["aria-label"] = "At a glance"
            self._records = elements.figure("Records", "–")
            self._rate = elements.figure("Records per second", "–")
            self._size = elements.figure("Size", "–")
            self._count = elements.figure("Partitions", "–")
            self._retention = elements.figure("Retention", "–")
            self._compaction = elements.figure("Compaction", "–")

    def draw(self, topic: Topic) -> None:
        self._records.set_text(number(topic.offsets))
        self._rate.set_text(number(self._visit.context.history.rate(topic.name)))
        self._size.set_text(size(topic.bytes))
        self._count.set_text(number(len(topic.partitions)))
        self._retention.set_text(retention(topic))
        self._compaction.set_text("latest of each key" if topic.is_compacted else "none")
        self.partitions.rows = [
            {
                "number": each.number,
                "first": f"{each.first_offset:,}",
                "next": f"{each.next_offset:,}",
                "records": f"{each.next_offset - each.first_offset:,}",
                "bytes": size(each.bytes),
                "leader": each.leader,
            }
            for each in topic.partitions
        ]


def retention(topic: Topic) -> str:
    """By age and by size."""
    by_age = "forever" if topic.retention_ms is None else duration(topic.retention_ms / 1000)
    by_size = topic.retention_bytes
    return by_age if by_size is None else f"{by_age}, {size(by_size)} per partition"


EVERY_S = 3.0
_NUMBERS = {"align": "right", "sortable": True, "classes": "hw-num"}
_WIDE = {"classes": "hw-num hw-only-wide", "headerClasses": "hw-only-wide"}
_COLUMNS: list[dict[str, Any]] = [
    {"name": "name", "label": "Topic", "field": "name", "align": "left", "sortable": True},
    {"name": "records", "label": "Records", "field": "records", **_NUMBERS},
    {"name": "rate", "label": "Records/s", "field": "rate", **_NUMBERS, **_WIDE},
    {"name": "size", "label": "Size", "field": "size", **_NUMBERS, **_WIDE},
    {"name": "partitions", "label": "Partitions", "field": "partitions", **_NUMBERS, **_WIDE},
    {"name": "kept", "label": "Kept", "field": "kept", "align": "left", **_WIDE},
]
_NAME = """
<q-td :props="props" class="hw-group-cell">
  <a class="hw-mono" :href="'/topics/' + props.value">{{ props.value }}</a>
  <span class="hw-narrow-line hw-soft hw-small">{{ props.row.shown.size }}, {{ props.row.kept }}</span></q-td>
"""
_SHOWN = """
<q-td :props="props">{{ props.row.shown[props.col.name] }}</q-td>
"""


def show(visit: Visit) -> None:
    with ui.element("div").classes("hw-head"):
        elements.heading(
            "Topics", "Everything that was written, in order, for as long as it is kept."
        )
        creation = creation_form(visit, lambda: kept.soon())
        with ui.element("div").classes("hw-actions"):
            elements.action(visit, Action.CREATE_TOPIC, "New topic", creation.open, icon="add")

    def draw(found: list[Topic]) -> None:
        table.draw([row_of(each, visit.context.history.rate(each.name)) for each in found])

    def load() -> list[Topic]:
        return topics.listed(visit.context.log, internal=internal.value)

    kept = live.keep(visit.context.history.checked(load), draw, EVERY_S)
    table = FilteredTable(
        "All topics",
        _COLUMNS,
        {"name": _NAME} | dict.fromkeys(("records", "rate", "size", "partitions"), _SHOWN),
        (
            "There are no topics yet.",
            "headwater topics create NAME makes one; so does the first record of a producer.",
        ),
        filtered="Filter by name",
        per_page=(100, 500, 0),
        pages="Topics per page:",
    )
    with table.tools:
        internal = ui.switch("Internal topics")
    internal.on_value_change(kept.soon)


def row_of(topic: Topic, rate: float | None) -> dict[str, Any]:
    """Numbers to sort by, and the same numbers as they are read."""
    return {
        "name": topic.name,
        "records": topic.offsets,
        "rate": rate or 0.0,
        "size": topic.bytes or 0,
        "partitions": len(topic.partitions),
        "kept": kept_for(topic),
        "shown": {
            "records": number(topic.offsets),
            "rate": number(rate),
            "size": size(topic.bytes),
            "partitions": number(len(topic.partitions)),
        },
    }


def kept_for(topic: Topic) -> str:
    """Retention and compaction as a person says it."""
    if not topic.settings:
        return "–"
    parts = ["latest of each key"] if topic.is_compacted else []
    if topic.retention_ms is not None:
        parts.append(duration(topic.retention_ms / 1000))
    elif not topic.is_compacted:
        parts.append("forever")
    if topic.retention_bytes is not None:
        parts.append(f"{size(topic.retention_bytes)} per partition")
    return ", ".join(parts)


PAGES = [
    Page("/topics", "Topics", show, icon="view_list", order=20),
    Page("/topics/{topic}", "Topic", show_one),
]
