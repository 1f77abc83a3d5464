"""Where each node of the flow stands: a column by its way from the sources, a row by its neighbours. Pure.

Columns alternate: what holds records, what reads them. Within a column a node is put near the middle of what
leads to it, then of what it leads to, a few times over: lines then cross little.
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.console.flow.graph import Graph

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
