"""The lag of a group over the last minutes, one line for each of its partitions; Apache ECharts draws it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nicegui import ui

from headwater.console.history import Place

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
