"""Topics: what there is, how large, how fast, and how long it is kept; a topic's own page is `topics_one`."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from headwater.browse import topics
from headwater.browse.topics import Topic
from headwater.console import elements, live
from headwater.console.context import Visit
from headwater.console.pages import Page
from headwater.console.pages.topics_one import show_one
from headwater.console.sentences import duration, number, size

EVERY_S = 3.0
_NUMBERS = {"align": "right", "sortable": True, "classes": "hw-num"}
_COLUMNS: list[dict[str, Any]] = [
    {"name": "name", "label": "Topic", "field": "name", "align": "left", "sortable": True},
    {"name": "records", "label": "Records", "field": "records", **_NUMBERS},
    {"name": "rate", "label": "Records/s", "field": "rate", **_NUMBERS},
    {"name": "size", "label": "Size", "field": "size", **_NUMBERS},
    {"name": "partitions", "label": "Partitions", "field": "partitions", **_NUMBERS},
    {"name": "kept", "label": "Kept", "field": "kept", "align": "left"},
]
_NAME = """
<q-td :props="props"><a class="hw-mono" :href="'/topics/' + props.value">{{ props.value }}</a></q-td>
"""
_SHOWN = """
<q-td :props="props" class="hw-num">{{ props.row.shown[props.col.name] }}</q-td>
"""


def show(visit: Visit) -> None:
    elements.heading("Topics", "Everything that was written, in order, for as long as it is kept.")

    def draw(found: list[Topic]) -> None:
        table.rows = [row_of(each, visit.context.history.rate(each.name)) for each in found]
        table.set_visibility(bool(found))
        none.set_visibility(not found)

    def load() -> list[Topic]:
        return topics.listed(visit.context.log, internal=internal.value)

    kept = live.keep(visit.context.history.checked(load), draw, EVERY_S)
    with ui.element("div").classes("hw-tools"):
        words = ui.input("Filter by name").props("dense outlined clearable").classes("hw-goto")
        internal = ui.switch("Internal topics")
    with elements.card() as card:
        card.props["aria-label"] = "All topics"
        table = ui.table(columns=_COLUMNS, rows=[], row_key="name", pagination=100)
        table.classes("hw-list").props(
            'flat :rows-per-page-options="[100, 500, 0]" rows-per-page-label="Topics per page:"'
        )
        table.add_slot("body-cell-name", _NAME)
        for name in ("records", "rate", "size", "partitions"):
            table.add_slot(f"body-cell-{name}", _SHOWN)
        table.bind_filter_from(words, "value", lambda value: value or "")
        none = ui.element("div").classes("full-width")
        with none:
            elements.absent(
                "There are no topics yet.",
                "headwater topics create NAME makes one; so does the first record of a producer.",
            )
        none.set_visibility(False)

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
    Page("/topics/{name}", "Topic", show_one),
]
