"""The picture of the flow, from what is seen to columns and rows: no broker, no browser."""

from __future__ import annotations

from headwater.capture.change import Lag, Progress
from headwater.client.position import Position
from headwater.console.flow.graph import FAR_BEHIND, TOPICS_MOST, graph_of
from headwater.console.flow.seen import Seen, TopicSeen, pace_of, reads_of
from headwater.console.history import Sample
from headwater.console.pages.flow import laid_out, without_box
from headwater.console.watching.captures import CaptureNow
from headwater.console.watching.queries import QueryNow, now_of
from headwater.console.watching.views import ViewNow
from headwater.project.record import Entry
from headwater.views.operate import progress as listing
from headwater.views.operate.progress import Listed

CAPTURE = CaptureNow("shop", "sqlite:shop.db", ("orders",), "streaming", lag=Lag(seconds=2.0))


def query(name: str, to: str, reads: str, lag_seconds: float = 0.0) -> QueryNow:
    """A query that has made progress twice, ten rows in ten seconds."""
    said = [
        {
            "event": "progress",
            "query": name,
            "to": to,
            "at_ms": at,
            "input_rows": 10,
            "lag_seconds": lag_seconds,
            "position": {reads: {"0": 5}},
        }
        for at in (1_000, 11_000)
    ]
    return now_of(name, list(said), now_ms=12_000)


def view(name: str, to: str, records: int = 0, seconds: float = 0.0) -> ViewNow:
    lag = listing.Lag(records, seconds)
    return ViewNow(name, to, Listed(name, to, 1, (1,), Position(), lag), None)


def seen(**more: object) -> Seen:
    """shop ─▶ shop.orders ─▶ counts ─▶ topic counts ─▶ totals ─▶ sqlite"""
    given: dict[str, object] = {
        "captures": [CAPTURE],
        "queries": [
            query("counts", "topic:counts", "shop.orders"),
            query("totals", "sqlite:views.db", "counts"),
        ],
        "views": [view("counts", "topic:counts"), view("totals", "sqlite:views.db")],
        "topics": {
            name: TopicSeen(10, 1.0) for name in ("shop.orders", "counts", "shop.transaction")
        },
        "lags": {"headwater-counts": {"shop.orders": 3}, "headwater-totals": {"counts": 0}},
    }
    return Seen(**{**given, **more})  # type: ignore[arg-type]


def test_everything_stands_in_the_order_in_which_records_flow() -> None:
    graph = graph_of(seen())
    layout = laid_out(graph)
    assert layout.columns == [
        ["source:shop"],
        ["topic:shop.orders"],
        ["query:counts"],
        ["topic:counts"],
        ["query:totals"],
        ["view:totals"],
    ]
    assert layout.heads == ["Sources", "Topics", "Queries", "Views", "Queries", "Views"]
    ways = {(edge.source, edge.target): edge for edge in graph.edges}
    assert ways["topic:shop.orders", "query:counts"].lag == "3 behind"
    assert ways["source:shop", "topic:shop.orders"].lag == "2.0 s behind"
    assert ways["query:totals", "view:totals"].rate == 1.0
    assert not graph.hurting


def test_what_hurts_is_red_and_says_why() -> None:
    stopped = CaptureNow("shop", "sqlite:shop.db", ("orders",), "streaming")
    stopped = CaptureNow(
        **{**vars(stopped), "part": Entry("capture shop", "waiting", reason="killed")}
    )
    failed = now_of(
        "counts", [{"event": "failed", "at_ms": 1, "to": "topic:counts", "reason": "no memory"}], 2
    )
    graph = graph_of(
        seen(
            captures=[stopped],
            queries=[failed, query("totals", "sqlite:views.db", "counts")],
            views=[view("totals", "sqlite:views.db", 500, 120.0)],
            letters={"dlq.headwater-totals": 4},
            lags={"billing": {"shop.orders": FAR_BEHIND}},
        )
    )
    troubles = {node.id: node.trouble for node in graph.hurting}
    assert troubles == {
        "source:shop": "its process is waiting: killed",
        "query:counts": "no memory",
        "query:totals": "4 dead letters wait for somebody",
        "group:billing": "100,000 records behind",
        "view:totals": "500 records behind",
    }


def test_what_gets_nothing_done_is_told_whether_or_not_it_has_a_box() -> None:
    """The front page said that all was well while a webhook's receiver failed."""
    found = seen(
        lags={"headwater.webhook.billing": {"shop.orders": 3}, "headwater.webhook.well": {"t": 0}},
        failing={
            "webhooks.billing": "the receiver answered 500",
            "bridges.metrics": "the address is taken",
            "capture shop": "it is waiting: killed",
        },
    )
    graph = graph_of(found)
    assert {node.id: node.trouble for node in graph.hurting} == {
        "group:headwater.webhook.billing": "the receiver answered 500"
    }
    told = without_box(found, graph)
    assert told == {"bridges.metrics": "the address is taken"}, "a capture has its own box"


def test_a_query_that_says_nothing_any_more_is_silent() -> None:
    said = [{"event": "progress", "query": "counts", "to": "x:", "at_ms": 1_000}]
    assert now_of("counts", list(said), now_ms=2_000).state == "running"
    assert now_of("counts", list(said), now_ms=1_000_000).state == "silent"


def test_a_broker_that_is_away_makes_topics_red_and_leaves_the_picture() -> None:
    graph = graph_of(seen(trouble="no broker answers"))
    assert graph.nodes["topic:shop.orders"].tone == "bad"
    assert len(graph.nodes) == len(graph_of(seen()).nodes)


def test_of_many_topics_those_that_take_part_are_shown_first() -> None:
    many = {f"t{n:03}": TopicSeen(1, float(n)) for n in range(100)}
    topics = {**many, "shop.orders": TopicSeen(1, 0.0), "counts": TopicSeen(1, 0.0)}
    graph = graph_of(seen(topics=topics))
    shown = [node.name for node in graph.nodes.values() if node.kind == "topic"]
    assert len(shown) == TOPICS_MOST
    assert {"shop.orders", "counts", "t099"} <= set(shown)
    assert graph.left_out == 102 - TOPICS_MOST


def test_a_flow_in_a_circle_is_laid_out_too() -> None:
    graph = graph_of(seen(queries=[query("counts", "topic:shop.orders", "shop.orders")], views=[]))
    assert sum(map(len, laid_out(graph).columns)) == len(graph.nodes)


def test_a_snapshot_shows_how_far_it_is() -> None:
    progress = Progress("orders", 250, 1000, 0, 1)
    taking = CaptureNow("shop", "sqlite:shop.db", ("orders",), "snapshot", progress=progress)
    assert graph_of(seen(captures=[taking])).nodes["source:shop"].figure == "snapshot, 25 %"


def test_how_quickly_a_group_reads_follows_from_its_positions() -> None:
    def sample(at_ms: int, end: int, lag: int) -> Sample:
        return Sample(at_ms, {"orders": end}, {"billing": {("orders", 0): lag}})

    assert reads_of([sample(0, 100, 50)]) == {}
    assert reads_of([sample(0, 100, 50), sample(10_000, 200, 50)]) == {("billing", "orders"): 10.0}
    assert reads_of([sample(0, 100, 0), sample(10_000, 100, 60)]) == {("billing", "orders"): 0.0}


def test_the_pace_of_all_topics_leaves_out_what_just_came_and_what_is_internal() -> None:
    samples = [
        Sample(0, {"a": 10, "__own": 0}),
        Sample(2_000, {"a": 30, "__own": 500, "b": 1000}),
        Sample(4_000, {"a": 30, "b": 1010}),
    ]
    assert pace_of(samples) == [(2_000, 10.0), (4_000, 5.0)]
    assert pace_of([]) == []
