"""The front page: sources, topics, queries and views as one picture, live, red where something is wrong.

Also here: the picture of the flow in the browser: gives picture.js what to draw, whenever that has changed.

Also here: where each node of the flow stands: a column by its way from the sources, a row by its
neighbours. Pure.

Columns alternate: what holds records, what reads them. Within a column a node is put near the middle of what
leads to it, then of what it leads to, a few times over: lines then cross little.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from nicegui import ui
from nicegui.element import Element

from headwater.console import elements
from headwater.console.addresses import link
from headwater.console.charts import Chart
from headwater.console.context import Visit
from headwater.console.flow.graph import Edge, Graph, graph_of
from headwater.console.flow.seen import Looking, Seen, service_of
from headwater.console.live import keep
from headwater.console.pages import Page
from headwater.console.sentences import duration, short

EVERY_S = 2.0
HURTING_MOST = 6


def show(visit: Visit) -> None:
    elements.heading("Flow", "What comes in, what becomes of it, and where something is wrong.")
    shown = _Shown(visit)
    keep(Looking(visit.context).look, shown.draw, EVERY_S)


class _Shown:
    """What the page has, and changes at each look."""

    def __init__(self, visit: Visit) -> None:
        self._visit = visit
        self._made = False

    def _make(self) -> None:
        with ui.element("div").classes("hw-strip"):
            self._state = ui.element("div").classes("hw-strip-state").props('aria-live="polite"')
            self._rate = elements.figure("Into topics", "–")
            self._late = elements.figure("Slowest view", "–")
            self._letters = elements.figure("Dead letters", "–")
        self._hurting = ui.element("ul").classes("hw-hurting")
        with elements.card():
            self._empty = ui.element("div")
            self._picture = Picture()
            self._left_out = ui.label().classes("hw-soft hw-small")
        with elements.card() as self._pace:
            self._chart = Chart("Records into topics, per second")
        self._made = True

    def draw(self, seen: Seen) -> None:
        if not self._made:
            self._make()
        graph = graph_of(seen)
        self._picture.draw(graph, is_stale=seen.trouble is not None)
        self._picture.set_visibility(bool(graph.nodes))
        self._left_out.set_text(
            f"{graph.left_out} quieter topics are left out; the page Topics has all of them."
        )
        self._left_out.set_visibility(graph.left_out > 0)
        self._pace.set_visibility(len(seen.pace) > 1)
        self._chart.set([at for at, _ in seen.pace], [rate for _, rate in seen.pace])
        self._draw_state(seen, graph)
        self._draw_figures(seen)
        self._draw_empty(seen, graph)

    def _draw_state(self, seen: Seen, graph: Graph) -> None:
        self._state.clear()
        self._hurting.clear()
        hurting = [] if seen.trouble else graph.hurting
        broker = () if seen.trouble else seen.broker
        failing = {} if seen.trouble else without_box(seen, graph)
        count = len(broker) + len(failing) + len(hurting)
        with self._state:
            if seen.trouble:
                elements.state("The log does not answer", "bad")
            elif count:
                words = "1 thing needs" if count == 1 else f"{count} things need"
                elements.state(f"{words} attention", "bad")
            elif not graph.nodes:
                elements.state("Nothing flows yet", "calm")
            else:
                elements.state("All is well", "good")
        with self._hurting:
            if seen.trouble:
                old = "; the picture is the last one seen" if graph.nodes else ""
                _item("the log", "/parts", seen.trouble + old)
            for sentence in broker[:HURTING_MOST]:
                _item("the broker", "/parts", sentence)
            for name, why in islice(failing.items(), HURTING_MOST):
                _item(name, link("/parts", name=name), why)
            for node in hurting[:HURTING_MOST]:
                _item(f"{node.kind} {node.name}", node.href, node.trouble)
        self._hurting.set_visibility(bool(count or seen.trouble))

    def _draw_figures(self, seen: Seen) -> None:
        rates = [t.rate for name, t in seen.topics.items() if not name.startswith("_") and t.rate]
        self._rate.set_text("–" if seen.trouble else f"{short(sum(rates))} records/s")
        lags = [v.listed.lag for v in seen.views if v.listed and v.listed.lag]
        late = max((lag.seconds for lag in lags if lag.records), default=0.0)
        self._late.set_text(duration(late) + " behind" if late else "up to date" if lags else "–")
        self._letters.set_text(short(sum(seen.letters.values())))

    def _draw_empty(self, seen: Seen, graph: Graph) -> None:
        self._empty.clear()
        if graph.nodes:
            return
        with self._empty:
            if seen.trouble:
                elements.absent("There is nothing to show until the log answers.", seen.trouble)
            else:
                elements.absent(
                    "The log has no topics yet.",
                    "Publish a record, start a capture, or run: headwater demo",
                )


def without_box(seen: Seen, graph: Graph) -> dict[str, str]:
    """What gets nothing done, where the picture does not tell it."""
    shown = {f"capture {each.name}" for each in seen.captures} | {"pipelines"}
    shown |= {service_of(node.name) for node in graph.nodes.values() if node.icon == "groups"}
    return {name: why for name, why in seen.failing.items() if name not in shown}


def _item(name: str, href: str, trouble: str) -> None:
    with ui.element("li"):
        ui.link(name, href)
        ui.label(f": {trouble}").classes("hw-inline")


PAGES = [Page("/", "Flow", show, icon="account_tree", order=0)]


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


SWEEPS = 4
_FIRST = {"source": 0, "topic": 1, "query": 2, "view": 3}


@dataclass(frozen=True)
class Layout:
    columns: list[list[str]]
    """Ids of nodes, from the top."""
    heads: list[str]


def laid_out(graph: Graph) -> Layout:
    ranks = _ranks(graph)
    columns: list[list[str]] = [[] for _ in range(max([*ranks.values(), 3]) + 1)]
    for name in graph.nodes:
        columns[ranks[name]].append(name)
    for _ in range(SWEEPS):
        for column in columns[1:]:
            _settle(column, columns, [(e.target, e.source) for e in graph.edges])
        for column in reversed(columns[:-1]):
            _settle(column, columns, [(e.source, e.target) for e in graph.edges])
    return Layout(columns, [_head(graph, n, column) for n, column in enumerate(columns)])


def _ranks(graph: Graph) -> dict[str, int]:
    """The longest way from the left; a flow that goes in a circle ends after as many steps as nodes."""
    ranks = {name: _FIRST[node.kind] for name, node in graph.nodes.items()}
    for _ in range(min(len(ranks), 12)):
        changed = False
        for edge in graph.edges:
            wanted = ranks[edge.source] + 1
            if ranks[edge.target] < wanted <= 12:
                ranks[edge.target] = wanted
                changed = True
        if not changed:
            break
    return ranks


def _settle(column: list[str], columns: list[list[str]], pairs: list[tuple[str, str]]) -> None:
    heights = {name: row / max(1, len(c)) for c in columns for row, name in enumerate(c)}

    def middle(name: str) -> float:
        near = [heights[other] for own, other in pairs if own == name]
        return sum(near) / len(near) if near else heights[name]

    column.sort(key=middle)


def _head(graph: Graph, number: int, column: list[str]) -> str:
    kinds = {graph.nodes[name].kind for name in column}
    if number == 0:
        return "Sources"
    if "query" in kinds:
        return "Queries and readers" if any(n.startswith("group:") for n in column) else "Queries"
    return "Views" if number >= 3 else "Topics"
