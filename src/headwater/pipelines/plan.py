"""A query's plan, read from Spark's own text: its sources, what it keeps as state, what it may not do.

Called while a view is built. The analysed plan as `explain` prints it is the one form that a local
session and Spark Connect have alike. A streaming node is marked with `~`.

    ~Aggregate [window#7-T10000ms, k#2L], [window#7-T10000ms, k#2L, count(1) AS n#3L]
    +- ~Project [named_struct(start, …) AS window#7-T10000ms, …]
       +- ~EventTimeWatermark 3a8f…, timestamp#0: timestamp, 10 seconds
          +- ~StreamingRelationV2 …, headwater, …, [subscribe=orders, …], […]
"""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LINE = re.compile(r"^(?P<indent>[ :+|-]*)(?P<streaming>~?)(?P<text>'?[A-Za-z].*)$")
_IDENTITY = re.compile(r"#\d+L?(?:-T\d+ms)?")
_ALIAS = re.compile(r" AS [^,\])]+")
_WINDOW = re.compile(r"(?:named_struct\(start, |session_window\().*? AS (?:session_)?window")
_PLACES = ("subscribe", "subscribepattern", "assign", "path")

# Nodes that keep state between two micro-batches, where their input is a stream.
_STATEFUL = (
    "Aggregate",
    "Deduplicate",
    "DeduplicateWithinWatermark",
    "Distinct",
    "FlatMapGroupsInPandasWithState",
    "FlatMapGroupsWithState",
    "TransformWithState",
    "TransformWithStateInPandas",
    "TransformWithStateInPySpark",
    "GlobalLimit",
)


@dataclass(frozen=True)
class Node:
    """One line of the tree; `depth` grows towards the sources."""

    depth: int
    streaming: bool
    text: str

    @property
    def kind(self) -> str:
        return re.split(r"[^A-Za-z0-9]", self.text, maxsplit=1)[0]


@dataclass(frozen=True)
class Plan:
    nodes: tuple[Node, ...]

    @property
    def sources(self) -> tuple[str, ...]:
        """FORMAT PLACE of every streaming source, in Spark's order."""
        return tuple(_source(n.text) for n in self.nodes if n.kind.startswith("StreamingRelation"))

    @property
    def state(self) -> tuple[str, ...]:
        """What is kept between two batches: every stateful node, without names of the moment."""
        return tuple(
            _meaning(node, self.nodes[index + 1 :])
            for index, node in enumerate(self.nodes)
            if self._is_stateful(index)
        )

    @property
    def aggregates(self) -> bool:
        return any(node.streaming and node.kind == "Aggregate" for node in self.nodes)

    def kinds(self) -> set[str]:
        return {node.kind for node in self.nodes}

    def _is_stateful(self, index: int) -> bool:
        node = self.nodes[index]
        if node.streaming and node.kind in _STATEFUL:
            return True
        return node.kind == "Join" and all(n.streaming for n in self.children(index))

    def children(self, index: int) -> list[Node]:
        """The nodes directly below one."""
        depth = self.nodes[index].depth
        below = []
        for node in self.nodes[index + 1 :]:
            if node.depth <= depth:
                break
            if node.depth == depth + 1:
                below.append(node)
        return below


def plan_of(frame: DataFrame) -> Plan:
    """The analysed plan of a DataFrame."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        frame.explain(extended=True)
    return parse(text.getvalue())


def parse(explained: str) -> Plan:
    """The analysed plan in what `explain(extended=True)` prints."""
    section = explained.partition("== Analyzed Logical Plan ==\n")[2].partition("\n== ")[0]
    # The first line of the section is the schema of the result.
    lines = section.splitlines()[1:]
    return Plan(tuple(node for line in lines if (node := _node(line)) is not None))


def _node(line: str) -> Node | None:
    found = _LINE.match(line)
    if found is None:
        return None
    # Each level of the tree is three characters wide.
    return Node(len(found["indent"]) // 3, bool(found["streaming"]), found["text"])


def _meaning(node: Node, below: tuple[Node, ...]) -> str:
    # A window's length stands in the projection below, perhaps with a filter in between.
    near = next((each.text for each in below[:2] if each.kind == "Project"), "")
    windows = _WINDOW.findall(near)
    return " ".join(_bare(each) for each in [node.text, *windows])


def _bare(text: str) -> str:
    """Without expression ids, aliases and uuids, which change from run to run."""
    text = _ALIAS.sub("", _IDENTITY.sub("", text))
    return re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22,}", "", text)


def _source(text: str) -> str:
    """`headwater orders` from the text of a streaming relation."""
    options = {
        found[1].lower(): found[2]
        for found in re.finditer(r"[\[ ]([A-Za-z.]+)=([^\[\]]*?)(?=, [A-Za-z.]+=|\])", text)
    }
    places = [options[name] for name in _PLACES if name in options]
    return " ".join([_format(text), *places])


def _format(text: str) -> str:
    """The second part of `StreamingRelationV2 PROVIDER, FORMAT, TABLE, …`."""
    parts = [part.strip() for part in text.split(", ", 2)]
    if text.startswith("StreamingRelationV2") and len(parts) > 1:
        return parts[1]
    return text.partition(" ")[2].partition(",")[0].split("@")[0]
