"""One topic: figures, its records, its partitions and its settings; and what may be done with it."""

from __future__ import annotations

from functools import partial
from typing import Any

from nicegui import ui

from headwater.browse import topics
from headwater.browse.topics import Topic
from headwater.console import elements, live
from headwater.console.addresses import link
from headwater.console.context import Visit
from headwater.console.pages.topics_publish import publish_dialog
from headwater.console.pages.topics_records import Records
from headwater.console.pages.topics_replay import replay_dialog
from headwater.console.sentences import duration, number, size

EVERY_S = 3.0
_PARTITIONS: list[dict[str, Any]] = [
    {"name": "number", "label": "Partition", "field": "number", "align": "left"},
    {"name": "first", "label": "First offset", "field": "first"},
    {"name": "next", "label": "Next offset", "field": "next"},
    {"name": "records", "label": "Records", "field": "records"},
    {"name": "bytes", "label": "Size", "field": "bytes"},
    {"name": "leader", "label": "Leader", "field": "leader"},
]
_SETTINGS: list[dict[str, Any]] = [
    {"name": "name", "label": "Setting", "field": "name", "align": "left", "sortable": True},
    {"name": "value", "label": "Value", "field": "value", "align": "left"},
    {"name": "own", "label": "Given by", "field": "own", "align": "left", "sortable": True},
]


def show_one(visit: Visit) -> None:
    name = visit.params["name"]
    with ui.element("div").classes("hw-head"):
        elements.heading(name)
        with ui.element("div").classes("hw-actions"):
            publish = publish_dialog(visit, name)
            elements.action(visit, "Publish", publish.open, icon="edit_note")
            replay = replay_dialog(visit, name)
            elements.action(visit, "Replay", replay.open, icon="replay")
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
            about.settings = ui.table(columns=_SETTINGS, rows=[], row_key="name")
            about.settings.classes("hw-list").props("flat dense")


class _About:
    """The figures and the two tables, which change while somebody looks."""

    partitions: ui.table
    settings: ui.table

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
        self.settings.rows = [
            {"name": each, "value": said.value, "own": "the topic" if said.is_own else "default"}
            for each, said in sorted(topic.settings.items(), key=lambda e: (not e[1].is_own, e[0]))
        ]


def retention(topic: Topic) -> str:
    """By age and by size."""
    by_age = "forever" if topic.retention_ms is None else duration(topic.retention_ms / 1000)
    by_size = topic.retention_bytes
    return by_age if by_size is None else f"{by_age}, {size(by_size)} per partition"
