"""Small charts over time (ECharts), in the colours of the page, light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nicegui import ui

POINTS_MOST = 240
_FIRST, _SECOND = "#2a93b2", "#d9822b"


class Chart:
    """One line, or two with an axis each; `set` draws it anew."""

    def __init__(self, name: str, second: str | None = None) -> None:
        self._names = [name] if second is None else [name, second]
        self._last: tuple[Any, ...] = ()
        self._chart = ui.echart(_options(self._names), renderer="svg").classes("hw-chart")
        self._chart.props["aria-label"] = f"Chart: {' and '.join(self._names)}"
        self._chart.props('role="img"')

    def set_visibility(self, is_there: bool) -> None:
        self._chart.set_visibility(is_there)

    def set(self, times_ms: Sequence[float], *lines: Sequence[float]) -> None:
        key = (len(times_ms), times_ms[-1] if times_ms else 0)
        if key == self._last:
            return
        self._last = key
        for number, line in enumerate(lines):
            points = [list(each) for each in zip(times_ms, line, strict=True)][-POINTS_MOST:]
            self._chart.options["series"][number]["data"] = points
        self._chart.update()


def _options(names: list[str]) -> dict[str, Any]:
    colours = [_FIRST, _SECOND]
    grey = {"color": "#8296a5", "fontSize": 11}
    return {
        "animation": False,
        "color": colours,
        "grid": {"left": 8, "right": 8, "top": 34, "bottom": 6, "containLabel": True},
        "legend": {
            "top": 0,
            "left": 0,
            "itemHeight": 8,
            "itemWidth": 14,
            "textStyle": grey,
            "data": names,
        },
        "tooltip": {"trigger": "axis"},
        "xAxis": {
            "type": "time",
            "axisLabel": {**grey, "hideOverlap": True},
            "axisLine": {"lineStyle": {"color": "#8296a566"}},
            "splitLine": {"show": False},
        },
        "yAxis": [
            {
                "type": "value",
                "min": 0,
                "axisLabel": grey,
                "splitNumber": 3,
                "splitLine": {"show": number == 0, "lineStyle": {"color": "#8296a533"}},
            }
            for number in range(len(names))
        ],
        "series": [
            {
                "name": name,
                "type": "line",
                "yAxisIndex": number,
                "showSymbol": False,
                "lineStyle": {"width": 2},
                "areaStyle": {"opacity": 0.12} if number == 0 else None,
                "data": [],
            }
            for number, name in enumerate(names)
        ],
    }
