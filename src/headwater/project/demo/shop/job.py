"""The shop from opening to the verdict: a project under `headwater up`, a load, a kill, a comparison.

Called by the demo after the log alone. Ctrl-C ends the load early; what was written until then is waited for
and verified like any other load.
"""

from __future__ import annotations

import threading
import time
import webbrowser
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from random import Random

from headwater.project.demo.shop import postgres, verification
from headwater.project.demo.shop.cache import cache
from headwater.project.demo.shop.database import (
    DATABASE_VARIABLE,
    TABLES,
    Database,
    PostgreSQL,
    Shop,
    SQLite,
)
from headwater.project.demo.shop.load import CUSTOMERS, Load
from headwater.project.demo.shop.project import ShopProject, Up, missing_libraries, write_project
from headwater.project.demo.shop.watcher import Watcher, freshness, percentiles, told
from headwater.project.demo.summary import Audience, Plan, ShopFound, Summary

FIRST_ORDERS = 2_000
WRITES_PER_S = 150
PATIENCE_S = 240.0
EQUAL_WITHIN_S = 30.0
TOPICS = tuple(f"shop.{table}" for table in TABLES)
KILLED = "broker"


def keep_shop(plan: Plan, summary: Summary, audience: Audience) -> None:
    """Fill in `summary.shop`; where a library is missing, say so in `summary.left_out`."""
    if (missing := missing_libraries()) is not None:
        audience.begin("Opening the shop")
        audience.end(f"left out: {missing}")
        summary.left_out = missing
        return
    folder = (plan.data / f"{plan.topic}-shop").absolute()
    with ExitStack() as cleanup:
        to, which = cleanup.enter_context(cache(folder))
        slot = None if plan.database is None else _own_name(plan)
        project = write_project(folder, cache=to, slot=slot)
        database, environment = cleanup.enter_context(_database(plan, folder))
        load = Load(Shop(database, CUSTOMERS), Random(plan.topic))
        summary.shop = ShopFound("PostgreSQL" if plan.database else "SQLite", which)
        _Show(plan, project, database, load, summary.shop, audience).run(environment)


@contextmanager
def _database(plan: Plan, folder: Path) -> Iterator[tuple[Database, dict[str, str]]]:
    """The shop's database with its tables, and what the project's environment must say of it."""
    with ExitStack() as cleanup:
        database: Database
        environment, url = {}, None
        if plan.database is None:
            database = SQLite(folder / "shop.db")
        else:
            url = cleanup.enter_context(postgres.own_database(plan.database, _own_name(plan)))
            environment[DATABASE_VARIABLE] = url.partition("://")[2]
            database = PostgreSQL(url)
        cleanup.enter_context(closing(database))
        Shop(database, CUSTOMERS).make()
        if url is not None:
            postgres.check(url, _own_name(plan))
        yield database, environment


def _own_name(plan: Plan) -> str:
    """Of what the demo makes in a server that others use as well."""
    return f"headwater_{plan.topic.replace('-', '_')}"


class _Show:
    """One run of the shop."""

    def __init__(
        self,
        plan: Plan,
        project: ShopProject,
        database: Database,
        load: Load,
        found: ShopFound,
        audience: Audience,
    ) -> None:
        self._plan = plan
        self._project = project
        self._database = database
        self._load = load
        self._found = found
        self._audience = audience
        self._killed: float | None = None
        self._began = 0.0

    def run(self, environment: dict[str, str]) -> None:
        self._load.fill(FIRST_ORDERS)
        with Up(self._project.folder, environment) as up:
            self._open(up)
            with Watcher(self._project.views["order_list"], "order_list") as watcher:
                try:
                    self._write(up, watcher)
                    self._stay()
                except KeyboardInterrupt:
                    self._found.interrupted = True
                self._settle(up, watcher)
            self._compare(up)
            self._audience.begin("Stopping the project")
            begin = time.perf_counter()
            up.stop()
            self._audience.end(f"all parts in order, after {time.perf_counter() - begin:.1f} s")

    def _tell(self, note: str) -> None:
        self._audience.advance(0, note)

    def _open(self, up: Up) -> None:
        audience, begin = self._audience, time.perf_counter()
        audience.begin("Starting the project")
        up.until(lambda: bool(up.parts()), "the supervisor", PATIENCE_S, self._tell)
        up.until(
            lambda: all(part.state == "running" for part in up.parts().values()),
            "the parts to run",
            PATIENCE_S,
            self._tell,
        )
        names = ", ".join(up.parts())
        audience.end(f"{names} run after {time.perf_counter() - begin:.1f} s")
        self._show_console()
        audience.begin("Building four views")
        self._until_there(up)
        self._found.ready_s = time.perf_counter() - begin
        audience.end(
            f"cache ({self._found.cache}), search, DuckDB; Spark's start included, "
            f"after {self._found.ready_s:.1f} s"
        )

    def _show_console(self) -> None:
        if self._project.console is None:
            return
        self._found.console = f"http://{self._project.console}/"
        tour = f"{self._found.console}tour"
        self._audience.begin("Console")
        shown = self._plan.browser and webbrowser.open(tour)
        self._audience.end(f"{tour}{' is open in the browser' if shown else ''}")

    def _write(self, up: Up, watcher: Watcher) -> None:
        """Write for a while, and kill the broker in the middle of it."""
        found, seconds = self._found, self._plan.seconds
        self._audience.begin("Writing to the database", int(seconds * WRITES_PER_S))
        before = verification.total(self._ends(up))
        killer = threading.Timer(seconds / 2, self._kill, (up,))
        self._began = begin = time.monotonic()
        note = ""
        killer.start()
        try:
            while (now := time.monotonic()) < begin + seconds:
                new, gone = self._load.step()
                if new is not None:
                    watcher.expect(new)
                if gone is not None:
                    watcher.forget(gone)
                found.writes += 1
                if found.writes % 50 == 0:
                    note = _so_far(watcher)
                self._audience.advance(found.writes, note)
                time.sleep(max(0.0, begin + found.writes / WRITES_PER_S - now))
            killer.join()
            found.killed = KILLED
        finally:
            killer.cancel()
            found.load_s = time.monotonic() - begin
            found.records = -before
            killed = f", the {found.killed} killed in the middle" if found.killed else ""
            self._audience.end(f"{found.writes:,} transactions{killed}")

    def _stay(self) -> None:
        """Until Ctrl-C, for whoever takes the tour; what he writes is compared with the rest."""
        if self._plan.stay:
            self._audience.begin("Staying for the tour")
            written = self._load.trickle(self._audience.advance)
            self._found.writes += written
            self._audience.end(f"{written:,} transactions, until Ctrl-C")

    def _kill(self, up: Up) -> None:
        self._killed = time.monotonic()
        up.kill_part(KILLED)

    def _settle(self, up: Up, watcher: Watcher) -> None:
        """All that was written, and the closing of the shop, is in every view."""
        self._audience.begin("Catching up")
        found, begin = self._found, time.perf_counter()
        watcher.expect(self._load.close())
        watcher.retain({number for (number,) in self._database.rows("SELECT id FROM orders")})
        up.until(lambda: not watcher.waiting, "the last order", PATIENCE_S, self._tell)
        self._until_there(up)
        found.settled_s = time.perf_counter() - begin
        fresh = freshness(watcher.seen, self._killed)
        found.latency_p50_s, found.latency_p99_s = fresh.p50_s, fresh.p99_s
        found.measured, found.held_up, found.back_s = fresh.measured, fresh.held_up, fresh.back_s
        ago_ms = (time.time() - time.monotonic()) * 1000
        killed_ms = None if self._killed is None else self._killed * 1000 + ago_ms
        found.freshness = told(self._project.bootstrap, self._began * 1000 + ago_ms, killed_ms)
        found.records += verification.total(self._ends(up))
        found.restarts = {name: part.restarts for name, part in up.parts().items()}
        self._audience.end(
            f"after {found.settled_s:.1f} s; orders were in the cache after "
            f"{found.latency_p50_s:.2f} s (p50), {found.latency_p99_s:.2f} s (p99)"
        )

    def _compare(self, up: Up) -> None:
        self._audience.begin("Comparing with the database")
        self._found.views = verification.verify(
            self._database, self._project.views, EQUAL_WITHIN_S, self._tell
        )
        rows = sum(view.rows for view in self._found.views)
        different = sum(view.different for view in self._found.views)
        self._audience.end(f"{rows:,} rows in four views, {different} differ from the database")

    def _until_there(self, up: Up) -> None:
        """The log has every row, and every view has what the log has."""
        rows = sum(self._database.rows(f"SELECT count(*) FROM {t}")[0][0] for t in TABLES)
        ends = self._ends(up, at_least=rows)
        for name, to in self._project.views.items():
            up.until(
                lambda name=name, to=to: verification.has_reached(name, to, ends),  # type: ignore[misc]
                f"the view {name}",
                PATIENCE_S,
                lambda state, name=name: self._tell(f"{name}; {state}"),  # type: ignore[misc]
            )

    def _ends(self, up: Up, at_least: int = 0) -> dict[str, dict[int, int]]:
        """Where the topics of the shop end, once they have so many records."""
        found: dict[str, dict[int, int]] = {}

        def complete() -> bool:
            found.update(verification.ends_of(self._project.bootstrap, TOPICS))
            return len(found) == len(TOPICS) and verification.total(found) >= at_least

        up.until(complete, "the capture", PATIENCE_S, self._tell)
        return found


def _so_far(watcher: Watcher) -> str:
    p50, _ = percentiles(each.latency for each in watcher.seen)
    return f"p50 {p50:.2f} s" if p50 else ""
