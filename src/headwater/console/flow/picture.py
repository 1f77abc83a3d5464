"""The picture of the flow in the browser: gives picture.js what to draw, whenever that has changed."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from nicegui.element import Element

from headwater.console.flow.graph import Edge, Graph
from headwater.console.flow.layout import laid_out
from headwater.console.sentences import short


class Picture(Element, component="picture.js"):
    """One picture. The browser keeps focus and animation over changes."""

    def __init__(self) -> None:
        super().__init__()
        self._props["columns"] = []
        self._props["edges"] = []
        self._props["stale"] = False

    def draw(self, graph: Graph, *, is_stale: bool) -> None:
        layout = laid_out(graph)
        columns = [
            {"head": head, "nodes": [asdict(graph.nodes[name]) for name in names]}
            for head, names in zip(layout.heads, layout.columns, strict=True)
        ]
        self._props["columns"] = columns
        self._props["edges"] = [_edge(edge, is_stale=is_stale) for edge in graph.edges]
        self._props["stale"] = is_stale
        self.update()


def _edge(edge: Edge, *, is_stale: bool) -> dict[str, Any]:
    rate = None if is_stale else edge.rate
    words = "" if rate is None else f"{short(rate)}/s"
    return {**asdict(edge), "rate": rate or 0.0, "label": words}
