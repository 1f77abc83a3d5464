"""A test's own log, clock and queries: the user's views run in it unchanged, step by step.

The fixture `headwater_test` (see `plugin`) hands one to each test:

    def test_sales(headwater_test):
        headwater_test.send("orders", {"order_id": "1", "total": 5.0, "at": "2026-01-01T10:00:00Z"})
        headwater_test.run(pipelines.sales_by_hour)
        assert headwater_test.rows("sales_by_hour") == [...]

Nothing happens but in `run`, `advance` and `restart`: these append what was sent, all at once, and return
when every query has done all there is to do. So what is in which micro-batch is the test's to say.
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.client.log import Log
from headwater.client.position import Position
from headwater.pipelines.builder import build
from headwater.pipelines.checkpoints import Checkpoints
from headwater.pipelines.context import Context, within
from headwater.pipelines.declarations import DECLARED, View, in_store
from headwater.pipelines.errors import PipelineError
from headwater.pipelines.handles import the_view
from headwater.pipelines.loader import load, read
from headwater.pipelines.query_settings import tune
from headwater.processing.durations import Duration, millis
from headwater.processing.event_time.events import CLOCK
from headwater.testing.clock import ManualClock
from headwater.testing.desk import Desk, Sent
from headwater.testing.view_rows import Shown, collected, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from headwater.client.librdkafka import Message
    from headwater.testing.embedded_broker import EmbeddedBroker

TRIES, SLOW_START = 5, "failed to connect back"
Which = str | Path | Callable[[], object]
Row = Mapping[str, object] | str | bytes | None


class Rehearsal:
    """One test's log, clock and queries."""

    def __init__(
        self, spark: SparkSession, broker: EmbeddedBroker, clock: ManualClock, folder: Path
    ) -> None:
        self.spark = spark
        self.bootstrap = broker.bootstrap
        self.faults = broker.faults
        """What goes wrong in the broker; see `broker_faults`."""
        self.clock = clock
        self.folder = folder
        self.log = Log(self.bootstrap)
        self._desk = Desk(self.bootstrap, self.log)
        self._checkpoints = Checkpoints(str(folder / "checkpoints"), spark)
        self._queries: dict[str, StreamingQuery] = {}
        self._shown: dict[str, Shown] = {}
        self._clock_file = folder / "clock"
        self._tell_time()
        spark.conf.set(CLOCK, str(self._clock_file))

    @property
    def now(self) -> dt.datetime:
        """What the clock shows."""
        return dt.datetime.fromtimestamp(self.clock.now_ms() / 1000, dt.UTC)

    # ---- what goes in -----------------------------------------------------------------------------

    def topic(self, name: str, partitions: int = 1, **config: str) -> None:
        """Make a topic; `send` and `run` make those of one partition by themselves."""
        named = {key.replace("_", "."): value for key, value in config.items()}
        self.log.ensure_topic(name, named, partitions)

    def send(
        self, topic: str, *rows: Row, key: str | None = None, partition: int | None = None
    ) -> None:
        """Have rows appended at the next step, with the clock's time as their timestamps.

        A row is a dict, which is written as JSON; or bytes, text or None, which are written as they
        are. `key` names the column whose text becomes the record's key.
        """
        for row in rows:
            self._desk.put(Sent(topic, row, key, partition, self.clock.now_ms()))

    # ---- what happens -----------------------------------------------------------------------------

    def run(self, *views: Which, to: str | None = None) -> None:
        """Start these views where they do not run yet, and let every query do all there is to do.

        A view is named by its function, by its name, or by the file or folder that declares it; with
        none given, all that are declared. A view that lives in a database or store is kept in a SQLite
        file of this test instead, unless `to` says where.
        """
        chosen = [self._placed(view, to) for view in self._find(views)]
        self._desk.append()
        for view in chosen:
            if view.name not in self._queries:
                self._start(view)
        self._settle()

    def _step(self) -> None:
        self._desk.append()
        self._settle()

    def advance(self, duration: Duration) -> dt.datetime:
        """Let what was sent be done, then let time pass, at once; returns what the clock shows then."""
        self._step()
        self.clock.advance(millis(duration))
        self._tell_time()
        self._settle()
        return self.now

    def restart(self) -> None:
        """Stop every query, perhaps in the middle of what was sent, and start it from its checkpoint."""
        self._desk.append()
        self._begin_again(self.stop)

    def kill(self) -> None:
        """As `restart`, but as a kill at the worst moment leaves it: the last batch comes once more.

        Its target has committed it, and its checkpoint does not know.
        """
        self._step()
        self._begin_again(self._forget_the_last_batch)

    def _begin_again(self, end: Callable[[], None]) -> None:
        views = [self._shown[name].view for name in self._queries]
        end()
        for view in views:
            self._start(view)
        self._settle()

    def _forget_the_last_batch(self) -> None:
        places = [self._checkpoints.of(self._shown[name].view.checkpoint) for name in self._queries]
        self.stop()
        for place in places:
            commits = [p for p in (Path(place) / "commits").iterdir() if p.name.isdigit()]
            last = max(commits, key=lambda path: int(path.name))
            last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
            last.unlink()

    def stop(self, *names: str) -> None:
        """Stop queries, all of them unless named; `run` starts them again where they were."""
        for name in names or tuple(self._queries):
            self._queries.pop(name).stop()

    def _settle(self) -> None:
        """Every query up to date, those first whose topics others read."""
        for _ in self._queries:  # a view of a view of …: at most as many rounds as there are views
            for name in tuple(self._queries):
                self._catch_up(name)
            if not self._chained():
                break

    def _catch_up(self, name: str) -> None:
        for attempt in range(TRIES):
            try:
                self._queries[name].processAllAvailable()
                return
            except Exception as error:
                # Spark gives a Python process ten seconds to start, which on a busy machine it exceeds.
                if SLOW_START not in str(error) or attempt == TRIES - 1:
                    raise
                self._start(self._shown[name].view)

    def _chained(self) -> bool:
        written = {shown.view.topic for shown in self._shown.values()}
        return any(topic in written for shown in self._shown.values() for topic in shown.reads)

    # ---- what comes out ---------------------------------------------------------------------------

    def rows(self, view: Which) -> list[dict[str, object]]:
        """The view as its readers see it: its rows, sorted. Of a topic with a key, the last of each."""
        return rows_of(self._seen(view), self.spark, self._desk, latest=True)

    def changes(self, view: Which) -> list[dict[str, object]]:
        """Every row that went into a view of a topic, in the log's order; deletes have `_deleted`."""
        return rows_of(self._seen(view), self.spark, self._desk, latest=False)

    def records(self, topic: str) -> list[Message]:
        """Every committed record of a topic, as confluent-kafka's messages."""
        self._desk.append()
        return self._desk.records(topic)

    def batch(self, view: Which) -> list[dict[str, object]]:
        """What the view's function gives in one batch over all that is in the log, sorted."""
        self._desk.append()
        (declared,) = self._find((view,))
        places = [(t, p) for t, count in self.log.topics().items() for p in range(count)]
        ends: dict[str, dict[int, int]] = {}
        for (topic, partition), end in self.log.ends(places).items():
            ends.setdefault(topic, {})[partition] = end
        context = Context(self.spark, self.bootstrap, view=replace(declared), pinned=Position(ends))
        with within(context):
            frame = declared.function()
        return sorted(collected(frame), key=repr)

    def query(self, view: Which) -> StreamingQuery:
        """Spark's own handle of a running view."""
        return self._queries[self._seen(view).view.name]

    def close(self) -> None:
        self.stop()
        self.spark.conf.unset(CLOCK)
        self._desk.close()
        self.log.close()

    # ---- views ------------------------------------------------------------------------------------

    def _find(self, which: Sequence[Which]) -> list[View]:
        if not which:
            return DECLARED.views()
        found: list[View] = []
        for each in which:
            found += self._named(each)
        return found

    def _named(self, which: Which) -> list[View]:
        if isinstance(which, str):
            return [the_view(which, DECLARED.views())]
        if not isinstance(which, Path):
            views = [view for view in DECLARED.views() if view.function is which]
            if not views:
                raise PipelineError(f"{which!r} is no view", hint="put @hw.view(…) over it")
            return views
        before = DECLARED.views()
        loaded = load(read([which]))
        _declare(before)
        return loaded

    def _placed(self, view: View, to: str | None) -> View:
        if to is not None:
            return replace(view, to=to, effect=None)
        if view.effect is not None or not in_store(view) or view.to.startswith("sqlite:"):
            return view
        return replace(view, to=f"sqlite:{self.folder / view.name}.db")

    def _start(self, view: View) -> None:
        place = self._checkpoints.of(view.checkpoint)
        context = Context(self.spark, self.bootstrap, {}, view.speed, view, checkpoint=place)
        frames: list[DataFrame] = []
        built = build(replace(view, function=_noting(view.function, frames)), context)
        for topic in (*built.reads, *filter(None, [view.topic])):
            self._desk.ensure(topic)
        self._checkpoints.admit(view.checkpoint, built.shape)
        tune(self.spark, built, self._checkpoints)
        writer = built.writer.queryName(view.checkpoint).outputMode(built.mode)
        writer = writer.option("checkpointLocation", place).options(**view.options)
        self._queries[view.name] = writer.start()
        self._shown[view.name] = Shown(view, frames[-1], built.reads)

    def _seen(self, view: Which) -> Shown:
        names = [view] if isinstance(view, str) else [each.name for each in self._find((view,))]
        for name in names:
            if name in self._shown:
                return self._shown[name]
        raise PipelineError(
            f"the view {names[0]!r} has not run in this test", hint="call run(…) with it first"
        )

    def _tell_time(self) -> None:
        fresh = self._clock_file.with_suffix(".new")
        fresh.write_text(str(self.clock.now_ms()), encoding="utf-8")
        fresh.replace(self._clock_file)


def _declare(views: Sequence[View]) -> None:
    for view in views:
        if view.name not in {each.name for each in DECLARED.views()}:
            DECLARED.add(view)


def _noting(function: Callable[[], Any], frames: list[DataFrame]) -> Callable[[], Any]:
    """The same function, with what it gives noted: a view's columns are known from it alone."""

    @functools.wraps(function)
    def noted() -> Any:
        found = function()
        frames.append(found)
        return found

    return noted
