"""One consumer group: its lag over the last minutes, partition by partition, its members, and a reset."""

from __future__ import annotations

from functools import partial
from typing import Any

from nicegui import ui

from headwater.browse import groups
from headwater.browse.groups import Group, PartitionLag
from headwater.console import elements, live
from headwater.console.context import Visit
from headwater.console.elements import Tone
from headwater.console.pages.groups_chart import LagChart
from headwater.console.pages.groups_reset import reset_dialog
from headwater.console.sentences import number

EVERY_S = 2.0
_STATES: dict[str, tuple[str, Tone]] = {
    "STABLE": ("reading", "good"),
    "PREPARING_REBALANCING": ("rebalancing", "warn"),
    "COMPLETING_REBALANCING": ("rebalancing", "warn"),
    "ASSIGNING": ("rebalancing", "warn"),
    "RECONCILING": ("rebalancing", "warn"),
    "EMPTY": ("nobody reads", "calm"),
    "DEAD": ("gone", "bad"),
    "UNKNOWN": ("unknown", "warn"),
}
_PARTITIONS: list[dict[str, Any]] = [
    {"name": "topic", "label": "Topic", "field": "topic", "align": "left"},
    {"name": "partition", "label": "Partition", "field": "partition"},
    {"name": "committed", "label": "Position", "field": "committed"},
    {"name": "end", "label": "End", "field": "end"},
    {"name": "lag", "label": "Lag", "field": "lag"},
    {"name": "member", "label": "Read by", "field": "member", "align": "left"},
]
_MEMBERS: list[dict[str, Any]] = [
    {"name": "client", "label": "Client", "field": "client", "align": "left"},
    {"name": "host", "label": "Host", "field": "host", "align": "left"},
    {"name": "reads", "label": "Reads", "field": "reads", "align": "left"},
    {"name": "id", "label": "Member id", "field": "id", "align": "left"},
]
_TOPIC = """
<q-td :props="props"><a class="hw-mono" :href="'/topics/' + props.value">{{ props.value }}</a></q-td>
"""


def state_of(group: Group) -> tuple[str, Tone]:
    """Kafka's state in a word, and how it looks."""
    return _STATES.get(group.state, (group.state.lower(), "warn"))


def show_one(visit: Visit, name: str) -> None:
    with ui.element("div").classes("hw-head"):
        elements.heading(name, "Consumer group")
        with ui.element("div").classes("hw-actions"):
            ui.link("All groups", "/groups").classes("hw-button-link")
            open_reset = reset_dialog(visit, name)
            elements.action(visit, "Reset offsets", open_reset, icon="settings_backup_restore")
    load = visit.context.history.checked(partial(groups.named, visit.context.log, name))
    live.keep(load, lambda found: about.draw(found), EVERY_S)
    about = _About(visit, name)


class _About:
    """Figures, chart and tables, which change while somebody looks."""

    def __init__(self, visit: Visit, name: str) -> None:
        self._history, self._name = visit.context.history, name
        with elements.card() as card, ui.element("div").classes("hw-figures"):
            card.props["aria-label"] = "At a glance"
            self._state = elements.figure("State", "–")
            self._lag = elements.figure("Lag", "–")
            self._members = elements.figure("Members", "–")
            self._kind = elements.figure("Protocol", "–")
        with elements.card("Lag over the last minutes"):
            self._chart = LagChart()
        with elements.card("Partitions"):
            self._partitions = ui.table(columns=_PARTITIONS, rows=[], row_key="id")
            self._partitions.classes("hw-list").props("flat dense")
            self._partitions.props["no-data-label"] = "It has not committed anything yet."
            self._partitions.add_slot("body-cell-topic", _TOPIC)
        with elements.card("Members"):
            self._table = ui.table(columns=_MEMBERS, rows=[], row_key="id")
            self._table.classes("hw-list").props("flat dense")
            self._table.props["no-data-label"] = "Nobody reads as this group at the moment."

    def draw(self, group: Group) -> None:
        self._state.set_text(state_of(group)[0])
        self._lag.set_text(number(group.lag))
        self._members.set_text(number(len(group.members)))
        self._kind.set_text(group.kind or "–")
        self._chart.draw(self._history.lag(self._name))
        self._partitions.rows = [_partition_row(each) for each in group.partitions]
        self._table.rows = [
            {
                "id": each.id,
                "client": each.client_id,
                "host": each.host,
                "reads": ", ".join(f"{topic}-{number}" for topic, number in each.partitions) or "–",
            }
            for each in group.members
        ]


def _partition_row(each: PartitionLag) -> dict[str, Any]:
    return {
        "id": f"{each.topic}-{each.partition}",
        "topic": each.topic,
        "partition": each.partition,
        "committed": "none yet" if each.committed is None else f"{each.committed:,}",
        "end": "gone" if each.end is None else f"{each.end:,}",
        "lag": number(each.lag),
        "member": each.member or "–",
    }
