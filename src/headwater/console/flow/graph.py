"""What is seen, as a graph: sources, topics, queries, views; rates and lag between them; what hurts. Pure.

capture ──▶ topic ──▶ query ──▶ view
              ▲          │
              └──────────┘      a view may live in a topic, which others read again
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from headwater.console.addresses import link
from headwater.console.flow.seen import Seen, service_of
from headwater.console.sentences import duration, number, short, size
from headwater.console.watching.captures import CaptureNow
from headwater.console.watching.queries import QueryNow
from headwater.console.watching.views import ViewNow

Kind = Literal["source", "topic", "query", "view"]
Tone = Literal["good", "warn", "bad", "calm"]
LATE_S, TOO_LATE_S = 15.0, 60.0
"""A view that is further behind is yellow, then red."""
BEHIND, FAR_BEHIND = 10_000, 100_000
"""The same in records, for groups of which no seconds are known."""
TOPICS_MOST = 40
RATE_OVER_MS = 30_000
_OWN_GROUPS = ("headwater-sink-", "headwater-replay.", "headwater-browse", "headwater-run")
_BOOKKEEPING = (".transaction", ".schema-changes", ".avro-schemas", ".requests", ".message")
_WORST: tuple[Tone, ...] = ("calm", "good", "warn", "bad")


@dataclass
class Node:
    """A box."""

    id: str
    kind: Kind
    name: str
    sub: str = ""
    figure: str = ""
    tone: Tone = "calm"
    trouble: str = ""
    href: str = ""
    icon: str = ""
    badge: str = ""

    def hurt(self, tone: Tone, sentence: str) -> None:
        """Colour it, unless it is worse already."""
        if _WORST.index(tone) > _WORST.index(self.tone):
            self.tone, self.trouble = tone, sentence


@dataclass
class Edge:
    """A line, from left to right."""

    source: str
    target: str
    rate: float | None = None
    lag: str = ""
    tone: Tone = "calm"


@dataclass
class Graph:
    nodes: dict[str, Node] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)
    left_out: int = 0
    """Topics that are not in the picture, as there are too many."""

    @property
    def hurting(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.tone == "bad"]


def graph_of(seen: Seen) -> Graph:
    """The picture."""
    graph = Graph()
    for capture in seen.captures:
        _add(graph, _source(capture))
    reading = list(_readings(seen))
    written = {f"topic:{topic}" for topic in map(_topic_of, _targets(seen)) if topic}
    _add_topics(graph, seen, [topic for _, topic, _ in reading], written)
    for capture in seen.captures:
        _connect_source(graph, seen, capture)
    for query in seen.queries:
        _add(graph, _query(query, seen))
    for group in _foreign_groups(seen):
        _add(graph, _reader(group, seen))
    for reader, topic, group in reading:
        _connect_reader(graph, seen, reader, topic, group)
    _add_views(graph, seen)
    return graph


def _add(graph: Graph, node: Node) -> None:
    graph.nodes[node.id] = node


# ---- sources -------------------------------------------------------------------------------------


def _source(capture: CaptureNow) -> Node:
    node = Node(
        id=f"source:{capture.name}",
        kind="source",
        name=capture.name,
        sub=capture.scheme,
        figure="paused" if capture.part and capture.part.asked_by else capture.phase,
        tone="good" if capture.phase == "streaming" else "calm",
        href=link("/captures", name=capture.name),
        icon="storage",
    )
    if capture.progress is not None and capture.phase == "snapshot":
        done = 100 * capture.progress.rows / max(1, capture.progress.rows_expected)
        node.figure = f"snapshot, {min(done, 100):.0f} %"
        node.tone = "warn"
    if capture.part is not None and capture.part.state != "running":
        node.hurt(*capture.part.trouble("its process"))
    if capture.trouble:
        node.hurt("bad", capture.trouble)
    return node


def _connect_source(graph: Graph, seen: Seen, capture: CaptureNow) -> None:
    lag = ""
    if capture.lag is not None and capture.lag.seconds:
        lag = f"{duration(capture.lag.seconds)} behind"
    elif capture.lag is not None and capture.lag.bytes:
        lag = f"{size(capture.lag.bytes)} behind"
    for topic in [name for name in seen.topics if name.startswith(f"{capture.name}.")]:
        if f"topic:{topic}" in graph.nodes:
            tone: Tone = "bad" if graph.nodes[f"source:{capture.name}"].tone == "bad" else "calm"
            rate = seen.topics[topic].rate
            graph.edges.append(Edge(f"source:{capture.name}", f"topic:{topic}", rate, lag, tone))


# ---- topics --------------------------------------------------------------------------------------


def _add_topics(graph: Graph, seen: Seen, read: Sequence[str], written: set[str]) -> None:
    """Those that take part; of the others the busiest, as far as there is room."""
    shown = [name for name in seen.topics if _is_of_interest(name)]
    taking_part = {*read, *(name.removeprefix("topic:") for name in written)}

    def place(name: str) -> tuple[bool, float]:
        return name not in taking_part, -(seen.topics[name].rate or 0.0)

    chosen = sorted(sorted(shown), key=place)[:TOPICS_MOST]
    graph.left_out = len(shown) - len(chosen)
    for name in sorted(chosen):
        _add(graph, _topic(name, seen))
    for name in sorted(taking_part - set(seen.topics)):
        node = _topic(name, seen)
        node.hurt("warn", "there is no such topic yet")
        _add(graph, node)


def _topic(name: str, seen: Seen) -> Node:
    known = seen.topics.get(name)
    node = Node(
        id=f"topic:{name}",
        kind="topic",
        name=name,
        sub=f"{short(known.end)} records" if known else "not there yet",
        figure="" if known is None or known.rate is None else f"{short(known.rate)}/s",
        href=f"/topics/{name}",
        icon="reorder",
    )
    if seen.trouble:
        node.figure = ""
        node.hurt("bad", "the broker does not answer")
    return node


def _is_of_interest(topic: str) -> bool:
    return not (topic.startswith(("_", "dlq.")) or topic.endswith(_BOOKKEEPING))


# ---- queries and other readers -------------------------------------------------------------------


def _query(query: QueryNow, seen: Seen) -> Node:
    last = query.last or {}
    node = Node(
        id=f"query:{query.name}",
        kind="query",
        name=query.name,
        sub="Spark query" if query.state == "running" else query.state,
        figure=f"{short(rows_per_second(query))} rows/s" if last else "no batch yet",
        tone="good" if query.state == "running" and last else "calm",
        href=link("/queries", name=query.name),
        icon="bolt",
    )
    if query.state in ("failed", "refused"):
        node.hurt("bad", query.error or query.state)
    elif query.state == "silent":
        node.hurt("bad", "it has said nothing for a while: its application may have ended")
    elif query.state == "stopped":
        node.hurt("warn", "it was stopped")
    pipelines = next((part for part in seen.parts if part.name == "pipelines"), None)
    if seen.is_up and pipelines is not None and pipelines.state != "running":
        node.hurt(*pipelines.trouble("the part pipelines"))
    if letters := seen.letters.get(f"dlq.headwater-{query.name}"):
        node.badge = f"{short(letters)} dead letter{'' if letters == 1 else 's'}"
        node.hurt("bad", f"{node.badge} wait for somebody")
    return node


def rows_per_second(query: QueryNow) -> float | None:
    """Rows that came in, over the last half minute of its records."""
    end_ms = query.history[-1]["at_ms"] if query.history else 0
    recent = [each for each in query.history if each["at_ms"] >= end_ms - RATE_OVER_MS]
    if not recent:
        return None
    if len(recent) == 1:
        return 0.0
    took_s = (recent[-1]["at_ms"] - recent[0]["at_ms"]) / 1000
    return sum(int(each.get("input_rows") or 0) for each in recent[1:]) / max(took_s, 1.0)


def _reader(group: str, seen: Seen) -> Node:
    lag = sum(seen.lags[group].values())
    node = Node(
        id=f"group:{group}",
        kind="query",
        name=group,
        sub="consumer group",
        figure=f"{number(lag)} behind" if lag else "at the end",
        href=link("/groups", id=group),
        icon="groups",
    )
    why = seen.failing.get(service_of(group))
    node.hurt("bad" if why else _tone_of(lag), why or f"{number(lag)} records behind")
    return node


def _foreign_groups(seen: Seen) -> list[str]:
    """Readers that are none of our queries."""
    own = {query.group for query in seen.queries} | {f"headwater-{v.name}" for v in seen.views}
    return sorted(
        group
        for group, topics in seen.lags.items()
        if group not in own
        and not group.startswith(_OWN_GROUPS)
        and not group.startswith("headwater-")
        and any(map(_is_of_interest, topics))
    )


def _readings(seen: Seen) -> Iterator[tuple[str, str, str]]:
    """(node, topic, group) for everybody who reads."""
    for query in seen.queries:
        topics = set((query.last or {}).get("position") or {}) | set(seen.lags.get(query.group, {}))
        for topic in sorted(filter(_is_of_interest, topics)):
            yield f"query:{query.name}", topic, query.group
    for group in _foreign_groups(seen):
        for topic in sorted(filter(_is_of_interest, seen.lags[group])):
            yield f"group:{group}", topic, group


def _connect_reader(graph: Graph, seen: Seen, reader: str, topic: str, group: str) -> None:
    if f"topic:{topic}" not in graph.nodes:
        return
    lag = seen.lags.get(group, {}).get(topic, 0)
    query = next((q for q in seen.queries if q.group == group), None)
    tone = _tone_of(lag)
    if query is not None and query.last is not None:
        tone = _tone_of_seconds(query.last.get("lag_seconds"))
    edge = Edge(f"topic:{topic}", reader, seen.reads.get((group, topic)))
    edge.lag = f"{short(lag)} behind" if lag else ""
    edge.tone = tone if lag or tone == "bad" else "calm"
    graph.edges.append(edge)


# ---- views ---------------------------------------------------------------------------------------


def _targets(seen: Seen) -> list[str]:
    return [view.to for view in seen.views] + [query.to for query in seen.queries]


def _topic_of(to: str) -> str | None:
    scheme, _, rest = to.partition(":")
    return rest if scheme == "topic" else None


def _add_views(graph: Graph, seen: Seen) -> None:
    listed = {view.name: view for view in seen.views}
    for query in seen.queries:
        if query.name not in listed:
            listed[query.name] = ViewNow(query.name, query.to, None, None)
    for view in listed.values():
        query_id = f"query:{view.name}"
        if query_id not in graph.nodes:
            waiting = Node(query_id, "query", view.name, "not running", icon="bolt")
            waiting.href = link("/queries", name=view.name)
            _add(graph, waiting)
        topic = _topic_of(view.to)
        target = f"topic:{topic}" if topic else f"view:{view.name}"
        if topic is None:
            _add(graph, _view(view))
        elif target not in graph.nodes:
            continue
        graph.edges.append(_view_edge(view, query_id, target, seen))


def _view(view: ViewNow) -> Node:
    known = view.listed
    node = Node(
        id=f"view:{view.name}",
        kind="view",
        name=view.name,
        sub=view.to,
        href=link("/views", name=view.name),
        icon="table_chart",
    )
    if known is None:
        return node
    if known.trouble:
        node.hurt("bad", known.trouble)
    elif known.lag is None:
        node.figure = "not begun"
    else:
        node.figure = f"{duration(known.lag.seconds)} behind" if known.lag.records else "up to date"
        tone = _tone_of_seconds(known.lag.seconds if known.lag.records else 0.0)
        node.hurt(tone, f"{number(known.lag.records)} records behind")
    return node


def _view_edge(view: ViewNow, source: str, target: str, seen: Seen) -> Edge:
    query = next((q for q in seen.queries if q.name == view.name), None)
    edge = Edge(source, target, None if query is None else rows_per_second(query))
    lag = view.listed.lag if view.listed else None
    if lag is not None and lag.records:
        edge.lag = f"{duration(lag.seconds)} behind"
        edge.tone = _tone_of_seconds(lag.seconds)
        edge.tone = "calm" if edge.tone == "good" else edge.tone
    return edge


def _tone_of(records: int) -> Tone:
    return "bad" if records >= FAR_BEHIND else "warn" if records >= BEHIND else "good"


def _tone_of_seconds(seconds: float | None) -> Tone:
    if seconds is None:
        return "calm"
    return "bad" if seconds >= TOO_LATE_S else "warn" if seconds >= LATE_S else "good"
