"""Whole source transactions: which records are handed on and which are held, by drawing them."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pytest

import headwater as hw
from headwater.client.log import Log as LogClient
from headwater.client.position import Position
from headwater.pipelines.context import Context
from headwater.pipelines.declarations import DECLARED, View
from headwater.pipelines.errors import PipelineError
from headwater.pipelines.whole_transactions import whole_transactions
from headwater.views import offset_log, source_transactions
from headwater.views.source_collections import origins_of, table_of
from headwater.views.source_transactions import Event, Wholeness, divide, lacking_events
from headwater.views.targets.contract import Shape
from headwater.views.targets.registry import target_for
from tests.spark.run.desk import Desk
from tests.views.core.finishing import finish

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MARKS, ORDERS, LINES = "shop.transaction", "shop.orders", "shop.lines"
TABLES = (ORDERS, LINES)
WHOLE = Wholeness(MARKS, TABLES)


class Log:
    """Appends events of transactions, and tells a batch from here to there."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._ends: dict[tuple[str, int], int] = {}

    def add(self, topic: str, partition: int, tx: str | None, order: int | None = None) -> None:
        self._add(Event(topic, partition, self._next(topic, partition), tx, order, None))

    def end(self, tx: str, **counts: int) -> None:
        said = [{"data_collection": f"public.{n}", "event_count": c} for n, c in counts.items()]
        self._add(Event(MARKS, 0, self._next(MARKS, 0), tx, None, json.dumps(said)))

    def _add(self, event: Event) -> None:
        self.events.append(event)

    def _next(self, topic: str, partition: int) -> int:
        offset = self._ends.get((topic, partition), 0)
        self._ends[topic, partition] = offset + 1
        return offset


def shown(events: list[Event], places: list[int]) -> list[str]:
    return [f"{events[n].topic[5:]}:{events[n].partition}={events[n].offset}" for n in places]


def test_nothing_of_a_transaction_is_handed_on_before_its_end_and_all_its_events():
    log = Log()
    # orders:0   A1  -  B1            (- has no transaction: a row of a snapshot)
    # lines:0    A1  A2  C1
    # marks      A(1 order, 2 lines)  B(1 order, 1 line)  C(1 line)
    log.add(ORDERS, 0, "A", 1)
    log.add(ORDERS, 0, None)
    log.add(ORDERS, 0, "B", 1)
    log.add(LINES, 0, "A", 1)
    log.add(LINES, 0, "A", 2)
    log.add(LINES, 0, "C", 1)
    now, later = divide(log.events, WHOLE)
    assert now == []
    assert len(later) == 6
    log.end("A", orders=1, lines=2, elsewhere=5)
    log.end("B", orders=1, lines=1)
    log.end("C", lines=1)
    now, later = divide(log.events, WHOLE)
    assert shown(log.events, now) == [
        "lines:0=0",
        "lines:0=1",
        "lines:0=2",
        "orders:0=0",
        "orders:0=1",
    ]
    assert shown(log.events, later) == ["orders:0=2", "transaction:0=1"]


def test_what_lies_behind_a_held_record_is_held_and_with_it_the_rest_of_its_transaction():
    log = Log()
    # orders:0   A1 B1        A is not whole: its line is missing
    # lines:0    B1 C1        so B waits in orders, and its line too, and C behind that
    # lines:1    D1           D is nobody's neighbour
    log.add(ORDERS, 0, "A", 1)
    log.add(ORDERS, 0, "B", 1)
    log.add(LINES, 0, "B", 1)
    log.add(LINES, 0, "C", 1)
    log.add(LINES, 1, "D", 1)
    for tx, counts in {"A": (1, 1), "B": (1, 1), "C": (0, 1), "D": (0, 1)}.items():
        log.end(tx, orders=counts[0], lines=counts[1])
    now, later = divide(log.events, WHOLE)
    assert shown(log.events, now) == ["lines:1=0"]
    assert len([n for n in later if log.events[n].topic != MARKS]) == 4


def test_however_the_log_is_cut_into_batches_no_transaction_is_ever_seen_in_part():
    for seed in range(40):
        chance, log = random.Random(seed), Log()
        sizes: dict[str, int] = {}
        for number in range(25):
            tx, counts = f"t{number}", {"orders": 0, "lines": 0}
            for _ in range(chance.randrange(1, 6)):
                table = chance.choice(["orders", "lines"])
                counts[table] += 1
                log.add(f"shop.{table}", chance.randrange(2), tx, counts[table])
            sizes[tx] = sum(counts.values())
            log.end(tx, **{n: c for n, c in counts.items() if c})
        # Partitions are read independently of each other: a batch may end anywhere in each.
        by_place: dict[tuple[str, int], list[Event]] = {}
        for event in log.events:
            by_place.setdefault(event[:2], []).append(event)
        held: list[Event] = []
        done: list[Event] = []
        while any(by_place.values()) or held:
            new = [e for rest in by_place.values() for e in _taken(rest, chance.randrange(8))]
            both = held + new
            now, later = divide(both, WHOLE)
            whole = [both[n] for n in now]
            for tx in {event.transaction for event in whole}:
                assert sum(e.transaction == tx for e in whole) == sizes[str(tx)], (seed, tx)
            done += whole
            held = [both[n] for n in later]
        assert len(done) == sum(sizes.values()), seed
        for place in {event[:2] for event in done}:
            offsets = [event.offset for event in done if event[:2] == place]
            assert offsets == sorted(offsets), (seed, place)


def _taken(rest: list[Event], count: int) -> list[Event]:
    taken, rest[:] = rest[:count], rest[count:]
    return taken


def test_a_table_is_known_by_the_names_that_captures_give_it():
    assert table_of("shop.orders", MARKS, TABLES) == ORDERS
    assert table_of("public.lines", MARKS, TABLES) == LINES
    assert table_of("public.order lines", MARKS, ["shop.order_lines"]) == "shop.order_lines"
    assert table_of("public.customers", MARKS, TABLES) is None
    assert table_of("b.orders", MARKS, ("shop.a.orders", "shop.b.orders")) == "shop.b.orders"
    assert table_of("audit.orders", MARKS, ["shop.public.orders"]) is None


def test_a_transaction_does_not_wait_for_a_table_of_the_same_name_in_another_schema():
    counts = [("public.orders", 1), ("audit.orders", 2)]
    end = json.dumps([{"data_collection": name, "event_count": n} for name, n in counts])
    for orders in ("shop.public.orders", "shop.orders"):
        events = [
            Event(orders, 0, 0, "tx", 1, None, "public.orders"),
            Event(MARKS, 0, 0, "tx", None, end),
        ]
        origins = origins_of((each.topic, each.collection) for each in events)
        assert divide(events, Wholeness(MARKS, [orders], origins)) == ([0], [])


def test_a_views_position_does_not_claim_what_is_held(tmp_path: Path):
    (tmp_path / "offsets").mkdir()
    (tmp_path / "held").mkdir()
    text = 'v1\n{}\n{"shop.orders":{"0":9,"1":4},"shop.transaction":{"0":3}}\n'
    (tmp_path / "offsets" / "2").write_text(text)
    said = {"topic": MARKS, "first": {ORDERS: {"0": 5}, MARKS: {"0": 1}}}
    (tmp_path / "held" / "2.json").write_text(json.dumps(said))
    assert offset_log.position_of(str(tmp_path), 2) == Position({ORDERS: {0: 5, 1: 4}})
    source_transactions.forget(tmp_path / "held", 3)
    assert list((tmp_path / "held").iterdir()) == []


def test_a_view_over_tables_shows_an_order_only_with_all_its_lines(
    desk: Desk, tmp_path: Path, new_name: Callable[[], str]
):
    shop, prefix = tmp_path / "shop.db", new_name()
    orders, lines, marks = (f"{prefix}.{name}" for name in ("orders", "lines", "transaction"))
    for topic in (orders, lines, marks):
        desk.log.ensure_topic(topic, {}, partitions=1)

    @hw.view("bills", key="order", to=f"sqlite:{shop}", options={"transactions": marks})
    def bills():
        each = hw.table(orders, schema="order BIGINT, who STRING", key="order")
        line = hw.table(lines, schema="line BIGINT, order BIGINT, price DOUBLE", key="line")
        return each.join(line, "order").groupBy("order").agg({"price": "sum"})

    def event(topic: str, key: int, tx: str, number: int, /, **row: object) -> None:
        said = {"id": tx, "total_order": 1, "data_collection_order": number}
        value = {"op": "c", "before": None, "after": row, "transaction": said}
        desk.send(topic, [(json.dumps({"id": key}), json.dumps(value))])

    def end(tx: str, **counts: int) -> None:
        named = [{"data_collection": f"public.{n}", "event_count": c} for n, c in counts.items()]
        said = {"status": "END", "id": tx, "event_count": 9, "data_collections": named}
        desk.send(marks, [(json.dumps({"id": tx}), json.dumps(said))])

    def shown() -> list[tuple[object, ...]]:
        connection = sqlite3.connect(shop)
        try:
            return connection.execute("SELECT * FROM bills ORDER BY 1").fetchall()
        finally:
            connection.close()

    def position() -> Position:
        applied = target_for(f"sqlite:{shop}", Shape("bills", pa.schema([]), ("order",))).applied()
        assert applied is not None
        return applied.position

    view = DECLARED.views()[-1]
    event(orders, 1, "A", 1, order=1, who="Ada")
    event(lines, 1, "A", 1, line=1, order=1, price=1.0)
    end("A", orders=1, lines=1)
    event(orders, 2, "B", 1, order=2, who="Bob")
    event(lines, 2, "B", 1, line=2, order=2, price=5.0)
    finish(desk, view)
    assert shown() == [(1, 1.0)]
    assert position() == Position({orders: {0: 1}, lines: {0: 1}})  # half of B is not claimed
    end("B", orders=1, lines=2)
    finish(desk, view)
    assert shown() == [(1, 1.0)]
    event(lines, 3, "B", 2, line=3, order=2, price=7.0)
    finish(desk, view)
    assert shown() == [(1, 1.0), (2, 12.0)]
    assert position() == Position({orders: {0: 2}, lines: {0: 3}})

    # A line whose JSON is cut off belongs to a transaction that nobody can name: C is whole without it.
    desk.send(lines, [("4", '{"op": "c", "after": {"line": 4, "ord')])
    event(orders, 3, "C", 1, order=3, who="Cy")
    finish(desk, view)
    event(lines, 5, "C", 2, line=5, order=3, price=9.0)
    end("C", orders=1, lines=2)
    finish(desk, view)
    assert shown() == [(1, 1.0), (2, 12.0), (3, 9.0)]
    assert position() == Position({orders: {0: 3}, lines: {0: 5}})
    assert len(desk.records(view.dead_letters)) == 1


def test_a_transaction_that_lacks_an_event_waits_unless_its_table_had_values_that_say_nothing():
    log = Log()
    log.add(ORDERS, 0, "A", 1)
    log.add(LINES, 0, "B", 1)
    log.end("A", orders=1, lines=1)
    assert lacking_events(log.events, WHOLE, set()) == set()
    assert lacking_events(log.events, WHOLE, {ORDERS}) == set()
    assert lacking_events(log.events, WHOLE, {LINES}) == {"A"}, "B has no END yet"
    now, _ = divide(log.events, WHOLE, {"A"})
    assert shown(log.events, now) == ["orders:0=0"]


def test_where_the_log_ended_is_asked_once_and_a_batch_that_comes_again_is_cut_in_the_same_place(
    tmp_path: Path,
):
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "2").write_text(f'v1\n{{}}\n{{"{LINES}":{{"0":9}}}}\n')
    log_ends = [{LINES: {0: 9}}, {LINES: {0: 12}}]
    held = source_transactions.WholeTransactions(
        print, tmp_path, MARKS, TABLES, lambda: log_ends.pop(0)
    )
    assert held._all_read(2, {"A"}) == {"A"}
    assert held._all_read(2, {"A"}) == {"A"}, "the log has grown, the batch has not"
    (tmp_path / "offsets" / "3").write_text(f'v1\n{{}}\n{{"{LINES}":{{"0":10}}}}\n')
    assert held._all_read(3, {"A", "D"}) == {"A"}, "of D there may be more up to 12"


def test_whole_transactions_of_a_compacted_topic_are_refused(
    bootstrap: str, tmp_path: Path, new_name: Callable[[], str]
):
    compacted, kept = new_name(), new_name()
    with LogClient(bootstrap) as log:
        log.ensure_topic(compacted, {"cleanup.policy": "compact"}, partitions=1)
        log.ensure_topic(kept, {}, partitions=1)
    context = Context(cast("SparkSession", None), bootstrap)
    view = View("bills", print, "sqlite:bills.db", options={"transactions": "shop.transaction"})
    whole_transactions(view, context, print, tmp_path, [kept])
    with pytest.raises(PipelineError, match=f"{compacted} is compacted"):
        whole_transactions(view, context, print, tmp_path, [kept, compacted])
