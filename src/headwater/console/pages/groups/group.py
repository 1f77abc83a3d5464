"""One consumer group: its lag over the last minutes, partition by partition, its members, and a reset.

The lag of a group over the last minutes, one line for each of its partitions; Apache ECharts draws it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

from nicegui import ui

from headwater.client import groups
from headwater.client.groups import Group, PartitionLag
from headwater.console import elements, live
from headwater.console.actions import Action
from headwater.console.context import Visit
from headwater.console.elements import Tone
from headwater.console.forms.groups import OffsetsForm, deletion_form
from headwater.console.history import Place
from headwater.console.pages.groups.reset import reset_dialog
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


def state_of(group: Group, followed: Collection[str]) -> tuple[str, Tone]:
    """Kafka's state in a word, and how it looks; `followed` have no members, and a query that runs."""
    if group.state == "EMPTY" and group.name in followed:
        return "of a query", "good"
    return _STATES.get(group.state, (group.state.lower(), "warn"))


def show_one(visit: Visit, name: str) -> None:
    with ui.element("div").classes("hw-head"):
        elements.heading(name, "Consumer group")
        with ui.element("div").classes("hw-actions"):
            ui.link("All groups", "/groups").classes("hw-button-link")
            open_reset = reset_dialog(visit, name)
            elements.action(
                visit,
                Action.RESET_GROUP,
                "Reset offsets",
                open_reset,
                icon="settings_backup_restore",
            )
            forget = OffsetsForm(visit, name)
            deletion = deletion_form(visit, name)
            elements.action(
                visit, Action.DELETE_OFFSETS, "Delete offsets", forget.open, icon="backspace"
            )
            elements.action(
                visit,
                Action.DELETE_GROUP,
                "Delete group",
                deletion.open,
                icon="delete",
                props="outline color=negative",
            )
    load = visit.context.history.checked(partial(groups.named, visit.context.log, name))
    live.keep(load, lambda found: about.draw(found), EVERY_S)
    about = _About(visit, name)


class _About:
    """Figures, chart and tables, which change while somebody looks."""

    def __init__(self, visit: Visit, name: str) -> None:
        self._history, self._name = visit.context.history, name
        self._queries = visit.context.watch.queries
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
            self._partitions.add_slot("body-cell-topic", elements.TOPIC_CELL)
        with elements.card("Members"):
            self._table = ui.table(columns=_MEMBERS, rows=[], row_key="id")
            self._table.classes("hw-list").props("flat dense")
            self._table.props["no-data-label"] = "Nobody reads as this group at the moment."

    def draw(self, group: Group) -> None:
        self._state.set_text(state_of(group, self._queries.following())[0])
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


LINES_MAX = 12
"""Partitions with a line of their own: those with the most lag. The others are in the sum."""
POINTS_MAX = 300

Past = Sequence[tuple[int, Mapping[Place, int]]]


class LagChart:
    """A chart with a sentence that says the same to those who do not see it."""

    def __init__(self) -> None:
        self._chart = ui.echart(_options([])).classes("hw-chart")
        self._chart.props('role="img"')
        self._said = ui.label("").classes("hw-soft hw-small hw-said")

    def draw(self, past: Past) -> None:
        some = thinned(past)
        self._chart.options["series"] = series_of(some)
        self._chart.update()
        self._said.set_text(sentence(past))
        self._chart.props["aria-label"] = sentence(past)


def thinned(past: Past) -> Past:
    """At most `POINTS_MAX`, evenly, with the last one."""
    if len(past) <= POINTS_MAX:
        return past
    step = -(-len(past) // POINTS_MAX)
    return list(reversed(list(reversed(past))[::step]))


def series_of(past: Past) -> list[dict[str, Any]]:
    """Lines: the sum, and the partitions with the most lag at the end."""
    if not past:
        return []
    last = past[-1][1]
    places = sorted(last, key=lambda place: (-last[place], place))[:LINES_MAX]
    lines = [("all partitions", [[at, sum(lags.values())] for at, lags in past])]
    if len(last) > 1:
        lines += [
            (f"{topic}-{number}", [[at, lags.get((topic, number), 0)] for at, lags in past])
            for topic, number in sorted(places)
        ]
    return [_line(name, points, is_sum=at == 0) for at, (name, points) in enumerate(lines)]


def sentence(past: Past) -> str:
    """What the picture shows, in words."""
    if not past:
        return "No samples yet: one is taken every two seconds."
    sums = [sum(lags.values()) for _, lags in past]
    minutes = (past[-1][0] - past[0][0]) / 60_000
    span = "Now" if len(past) == 1 else f"Over the last {minutes:.0f} min"
    if minutes < 1 and len(past) > 1:
        span = f"Over the last {minutes * 60:.0f} s"
    return f"{span}: lag {sums[-1]:,}, at most {max(sums):,}, at least {min(sums):,}."


def _line(name: str, points: list[Any], *, is_sum: bool) -> dict[str, Any]:
    return {
        "name": name,
        "type": "line",
        "data": points,
        "showSymbol": len(points) < 3,
        "connectNulls": False,
        "lineStyle": {"width": 3 if is_sum else 1.5},
        "areaStyle": {"opacity": 0.12} if is_sum else None,
        "emphasis": {"focus": "series"},
    }


def _options(series: list[dict[str, Any]]) -> dict[str, Any]:
    soft = "#7d93a3"  # readable on light and on dark
    axis = {"axisLabel": {"color": soft}, "axisLine": {"lineStyle": {"color": soft}}}
    grid = {"splitLine": {"lineStyle": {"color": soft, "opacity": 0.25}}}
    return {
        "animation": False,
        "grid": {"left": 8, "right": 16, "top": 36, "bottom": 8, "containLabel": True},
        "tooltip": {"trigger": "axis", "confine": True},
        "legend": {"type": "scroll", "top": 0, "textStyle": {"color": soft}},
        "color": ["#0b8fb3", "#b0570b", "#6f4fbf", "#2a8f58", "#c2417c", "#8a7a00", "#3f6fd1"],
        "xAxis": {"type": "time", **axis},
        "yAxis": {"type": "value", "minInterval": 1, "min": 0, **axis, **grid},
        "series": series,
    }
