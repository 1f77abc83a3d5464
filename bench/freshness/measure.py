"""One scenario: the project is started, written to, watched and, where wanted, a part of it killed."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import asdict
from functools import partial
from pathlib import Path
from random import Random

from confluent_kafka import OFFSET_END, Consumer, TopicPartition

from bench.broker.meter import cpu_s
from bench.freshness.goals import Figures
from bench.freshness.scenarios import ORDERS, TOPIC, VISITS, Scenario
from headwater.project.demo.shop import verification
from headwater.project.demo.shop.database import TABLES, Shop, SQLite
from headwater.project.demo.shop.load import CUSTOMERS, Load
from headwater.project.demo.shop.project import Up
from headwater.project.demo.shop.watcher import LOOK_S, Seen, Watcher, freshness, told

PATIENCE_S = 240.0
Ends = dict[str, dict[int, int]]


def measure(
    scenario: Scenario, folder: Path, *, orders: int, warm_s: float, seconds: float
) -> dict[str, Figures]:
    """Figures by view; those of the project as a whole under its own name."""
    bootstrap = scenario.write(folder)
    with closing(SQLite(folder / "shop.db")) as database:
        shop = Shop(database, CUSTOMERS)
        shop.make()
        load = Load(shop, Random(7))
        load.fill(orders)
        begin = time.monotonic()
        with Up(folder) as up, ExitStack() as watching:
            there = until_there(scenario, folder, up, bootstrap, database)
            first_s, ready_s = (when - begin for when in (there[0], there[-1]))
            watchers = {
                (view, table): watching.enter_context(
                    _watcher(scenario.target(folder, view), view, bootstrap)
                )
                for view, table in scenario.watched
            }
            run = _Run(scenario, up, shop, load, watchers)
            run.write(warm_s, None)
            for watcher in watchers.values():
                watcher.seen.clear()
            before, began = _cpu(up), time.monotonic()
            killed = run.write(seconds, scenario.kill)
            wall = time.monotonic() - began
            # A part that was killed and is back counts from its start.
            spent = {
                part: (cpu - (b if (b := before.get(part, 0.0)) <= cpu else 0.0)) / wall
                for part, cpu in _cpu(up).items()
            }
            ago_ms = (time.time() - time.monotonic()) * 1000
            fresh = told(
                bootstrap, began * 1000 + ago_ms, None if killed is None else killed * 1000 + ago_ms
            )
            up.until(
                lambda: not any(w.waiting for w in watchers.values()),
                "the last row",
                PATIENCE_S,
                _tell,
            )
    found = {
        view: {k: v for k, v in asdict(freshness(watcher.seen, killed)).items() if v is not None}
        for (view, _), watcher in watchers.items()
    }
    found[scenario.name] = {f"cpu_{part}": cores for part, cores in spent.items()}
    found[scenario.name] |= {"cpu_cores": spent["all"], "first_s": first_s, "ready_s": ready_s}
    found[scenario.name] |= {f"{view}_fresh_s": each.median_s for view, each in fresh.items()}
    return found


class TopicWatcher(Watcher):
    """Follows a topic, of which it sees what is committed."""

    def __init__(self, topic: str, bootstrap: str) -> None:
        super().__init__(f"{TOPIC}:{topic}", topic)
        own = {"group.id": "watcher", "isolation.level": "read_committed", "fetch.wait.max.ms": 20}
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "log_level": 0, **own})
        partitions = self._consumer.list_topics(topic, timeout=30).topics[topic].partitions
        self._consumer.assign([TopicPartition(topic, n, OFFSET_END) for n in partitions])

    def _look(self) -> None:
        with closing(self._consumer):
            while not self._over.is_set():
                record = self._consumer.poll(LOOK_S)  # `consume` would wait for more of them
                if record is not None and record.error() is None:
                    self._note(int(record.key() or 0), time.monotonic())

    def _note(self, row: int, now: float) -> None:
        with self._lock:
            since = self._waiting.pop(row, None)
        if since is not None:
            self.seen.append(Seen(since, now))


def _watcher(to: str, view: str, bootstrap: str) -> Watcher:
    scheme, _, rest = to.partition(":")
    return TopicWatcher(rest, bootstrap) if scheme == TOPIC else Watcher(to, view)


class _Run:
    def __init__(
        self,
        scenario: Scenario,
        up: Up,
        shop: Shop,
        load: Load,
        watchers: dict[tuple[str, str], Watcher],
    ) -> None:
        self._scenario, self._up = scenario, up
        self._shop, self._load = shop, load
        self._watchers = watchers

    def write(self, seconds: float, kill: str | None) -> float | None:
        """Write at the scenario's rate; when something was killed, if so."""
        if not self._watchers:
            time.sleep(seconds)  # it is the idle project that is measured
            return None
        killed: list[float] = []
        killer = threading.Timer(seconds / 2, lambda: self._kill(kill or "", killed))
        if kill is not None:
            killer.start()
        begin, written = time.monotonic(), 0
        while (now := time.monotonic()) < begin + seconds:
            self._step()
            written += 1
            time.sleep(max(0.0, begin + written / self._scenario.writes_per_s - now))
        if kill is not None:
            killer.join()
        return killed[0] if killed else None

    def _kill(self, part: str, killed: list[float]) -> None:
        killed.append(time.monotonic())
        self._up.kill_part(part)

    def _step(self) -> None:
        visits = self._shop.count("visits")
        new, gone = self._load.step()
        for (_, table), watcher in self._watchers.items():
            if table == ORDERS:
                if new is not None:
                    watcher.expect(new)
                if gone is not None:
                    watcher.forget(gone)
            elif self._shop.count("visits") > visits:
                watcher.expect(self._shop.count("visits"))


def until_there(
    scenario: Scenario, folder: Path, up: Up, bootstrap: str, database: SQLite
) -> list[float]:
    """Return once every view has what was there before; when each of them was seen to."""
    rows = sum(database.rows(f"SELECT count(*) FROM {table}")[0][0] for table in TABLES)
    ends: Ends = {}

    def captured() -> bool:
        ends.update(verification.ends_of(bootstrap, tuple(f"shop.{table}" for table in TABLES)))
        return sum(sum(each.values()) for each in ends.values()) >= rows

    up.until(captured, "the capture", PATIENCE_S, _tell)
    there = []
    # One at a time: to look may mean to open a store that the project wants.
    for view in scenario.views:
        has_it = partial(_is_there(scenario, folder, view, bootstrap, database), ends)
        up.until(has_it, view, PATIENCE_S, _tell)
        there.append(time.monotonic())
    return there


def _is_there(
    scenario: Scenario, folder: Path, view: str, bootstrap: str, database: SQLite
) -> Callable[[Ends], bool]:
    to = scenario.target(folder, view)
    if to == f"{TOPIC}:{view}":
        return lambda _: _has_records(bootstrap, view, database)
    return partial(verification.has_reached, view, to)


def _has_records(bootstrap: str, topic: str, database: SQLite) -> bool:
    """A topic has what was there before; it ends behind the marker of a transaction."""
    ends = verification.ends_of(bootstrap, (topic,))
    return verification.total(ends) > database.rows(f"SELECT count(*) FROM {VISITS}")[0][0]


def _cpu(up: Up) -> dict[str, float]:
    """CPU seconds so far, of all and of each part."""
    parts = {name: part.pid for name, part in up.parts().items() if part.pid}
    return {name: _cpu_of(pid) for name, pid in {"all": up.pid, **parts}.items()}


def _cpu_of(pid: int) -> float:
    try:
        return cpu_s(pid)
    except FileNotFoundError:  # it was killed
        return 0.0


def _tell(_: str) -> None:
    pass


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
