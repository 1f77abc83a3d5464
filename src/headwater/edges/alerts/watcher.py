"""Rules that measure: lag, silence, and counts and averages of the last minutes. Services.

Nothing but what was said is kept: after a restart, lag and silence are asked for again, and a window is
filled again from the log, beginning so long ago.

Also here: the last minutes of a stream as one number: count, sum, average, least, most; pure.

Sixty buckets, whatever comes: memory does not grow with the rate, and a record leaves the window at most a
sixtieth of its length too late. Time is that of the records; what is older than the window is left out.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from headwater.browse.decoder import Decoder
from headwater.client.log import Log
from headwater.client.places import Place, located
from headwater.client.records import Record
from headwater.client.tail import follow
from headwater.edges.alerts import measurement, notices
from headwater.edges.alerts.config import Alert
from headwater.edges.alerts.judge import Judge, finite, number_at
from headwater.edges.alerts.rules import Aggregate
from headwater.edges.appender import Appender
from headwater.edges.webhooks import letters
from headwater.project.file import Project

QUIET_TURNS = 4
TICK_S = 0.5


class Watcher:
    """`lag`, `silence`: asks every few seconds."""

    def __init__(self, alert: Alert, log: Log, appender: Appender, project: Project | None) -> None:
        self.name = f"alerts.{alert.name}"
        self._alert, self._log, self._appender, self._project = alert, log, appender, project
        self._last: measurement.Measured | None = None
        self._judge: Judge | None = None

    def facts(self) -> Mapping[str, Any]:
        return _facts(self._judge, None if self._last is None else self._last.value)

    async def run(self) -> None:
        measure = measurement.of(self._alert, self._log, self._project)
        judge = self._judge = await _judge(self._alert, self._log)
        while True:
            found = self._last = await asyncio.to_thread(measure)
            notice = judge.measured(found.is_bad, found.summary, _now_ms(), value=found.value)
            if notice is not None:
                await self._appender.append(notices.TOPIC, [notice.draft()])
            await asyncio.sleep(self._alert.every_s)


class Counter:
    """`count > 100 in 1m` and the like: follows the topic from the window's beginning."""

    def __init__(self, alert: Alert, log: Log, appender: Appender) -> None:
        assert isinstance(alert.rule, Aggregate)
        self.name = f"alerts.{alert.name}"
        self._alert, self._rule = alert, alert.rule
        self._log, self._appender = log, appender
        self._decoder = Decoder(log, insists=True)
        self._keep = alert.filter.compiled(self._decoder)
        self._window = Window(alert.rule.window_s)
        self._judge: Judge | None = None
        self._lock = threading.Lock()
        self._is_caught_up = False

    def facts(self) -> Mapping[str, Any]:
        return _facts(self._judge, self._value())

    async def run(self) -> None:
        judge = self._judge = await _judge(self._alert, self._log)
        self._window, self._is_caught_up = Window(self._rule.window_s), False
        stopped = threading.Event()
        # A thread of its own, for as long as it runs: the loop's few are for short questions.
        with ThreadPoolExecutor(1, thread_name_prefix=self.name) as threads:
            loop = asyncio.get_running_loop()
            reading = loop.run_in_executor(threads, self._read, stopped)
            try:
                while not reading.done():
                    await self._look(judge)
                    await asyncio.wait([reading], timeout=TICK_S)
                await reading  # for what it raises
            finally:
                stopped.set()
                await asyncio.gather(reading, return_exceptions=True)

    async def _look(self, judge: Judge) -> None:
        if not self._is_caught_up:
            return  # what is not read yet is not missing
        rule, value = self._rule, self._value()
        is_bad = value is not None and rule.beyond.is_met(value)
        word = "is" if is_bad else "is no longer"
        now = "nothing" if value is None else f"{value:,g}"
        summary = f"{rule} of {self._alert.about} {word} {rule.beyond}: {now}"
        notice = judge.measured(is_bad, summary, _now_ms(), value=value)
        if notice is not None:
            await self._appender.append(notices.TOPIC, [notice.draft()])

    def _value(self) -> float | None:
        with self._lock:
            return self._window.value(self._rule.fold, _now_ms())

    def _read(self, stopped: threading.Event) -> None:
        """In a thread."""
        topic = self._alert.about
        held = self._log.ranges(topic)
        since = Place(time_ms=int(_now_ms() - self._rule.window_s * 1000))
        at = located(self._log, topic, since, held)
        behind = {p for p, offset in at if offset < held[p][1]}
        quiet = 0
        for records in follow(self._log, topic, at):
            if stopped.is_set():
                return
            self._add(records)
            behind -= {
                each.partition for each in records if each.offset + 1 >= held[each.partition][1]
            }
            quiet = 0 if records else quiet + 1
            if not behind or quiet >= QUIET_TURNS:  # the last may be a transaction's marker
                self._is_caught_up = True

    def _add(self, records: list[Record]) -> None:
        now = _now_ms()
        for record in records:
            if self._keep is not None and not self._keep(record):
                continue
            value = 1.0
            if self._rule.fold != "count":
                number = number_at(self._decoder, record, self._rule.path)
                if number is None:
                    continue
                value = number
            with self._lock:
                self._window.add(record.timestamp_ms, value, now)


async def _judge(alert: Alert, log: Log) -> Judge:
    def prepared() -> notices.Said:
        letters.ensure(log, notices.TOPIC, **notices.SETTINGS)
        return notices.read(log, alert.name)

    return Judge(alert.name, await asyncio.to_thread(prepared))


def _facts(judge: Judge | None, value: float | None) -> dict[str, Any]:
    return {} if judge is None else {"firing": judge.firing, "value": value}


def _now_ms() -> int:
    return int(time.time() * 1000)


BUCKETS = 60


@dataclass(slots=True)
class _Bucket:
    count: int = 0
    total: float = 0.0
    least: float = float("inf")
    most: float = float("-inf")


class Window:
    def __init__(self, length_s: float) -> None:
        self._length_ms = length_s * 1000
        self._bucket_ms = max(1.0, self._length_ms / BUCKETS)
        self._buckets: dict[int, _Bucket] = {}

    def add(self, at_ms: float, value: float, now_ms: float) -> None:
        if at_ms <= now_ms - self._length_ms:
            return
        number = int(min(at_ms, now_ms) // self._bucket_ms)  # clocks of senders may be ahead
        bucket = self._buckets.setdefault(number, _Bucket())
        bucket.count += 1
        bucket.total = finite(bucket.total + value)
        bucket.least, bucket.most = min(bucket.least, value), max(bucket.most, value)

    def value(self, fold: str, now_ms: float) -> float | None:
        """None where there is nothing to take an average, the least or the most of."""
        first = (now_ms - self._length_ms) // self._bucket_ms
        self._buckets = {at: each for at, each in self._buckets.items() if at > first}
        found = self._buckets.values()
        count = sum(each.count for each in found)
        if fold == "count":
            return count
        total = finite(sum(each.total for each in found))
        if fold == "sum":
            return total
        if not count:
            return None
        if fold == "avg":
            return total / count
        return min(each.least for each in found) if fold == "min" else max(e.most for e in found)
