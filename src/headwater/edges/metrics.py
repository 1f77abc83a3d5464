"""GET /metrics for Prometheus: what the edges counted, and how topics, groups, views and captures are.

The log, the stores and the databases are asked when somebody scrapes, and at most every `FOR_S` seconds,
however many scrape. What does not answer in `WAIT_S` is left out, and `headwater_up` says so.

How far views and captures are, asked as `headwater views` and `headwater capture status` ask. Which views
there are the project's pipeline files say; they are run again when one of them has changed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import ProcessCollector, generate_latest
from prometheus_client.core import Metric

from headwater.browse.health import BrokerHealth, HealthReader
from headwater.capture.change import Lag, phase_of
from headwater.capture.config import from_mapping
from headwater.capture.positions import read_positions
from headwater.capture.source import open_source
from headwater.client import groups, topics
from headwater.client.log import Log
from headwater.edges import counts, prometheus
from headwater.edges.answer_body import counted
from headwater.edges.context import Context
from headwater.edges.monitoring import exporters
from headwater.edges.prometheus import CaptureSeen
from headwater.edges.rows.catalogue import Catalogue
from headwater.edges.services import Paused
from headwater.errors import HeadwaterError
from headwater.project.file import Project
from headwater.views.operate.progress import Listed

FOR_S = {"log": 1.0, "views": 2.0, "captures": 10.0}
WAIT_S = 5.0
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_WAITING = counts.gauge("headwater_edge_waiting_bytes", "Bytes on their way to the log")
_PROCESS = ProcessCollector(registry=None)


class Glance:
    """One part that is looked at: the last answer, and one question under way at most."""

    def __init__(
        self, look: Callable[[], Any], for_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._look, self._for_s, self._clock = look, for_s, clock
        self._until = float("-inf")
        self._asking: asyncio.Task[Any] | None = None
        self.answer: Any = None
        self.trouble: str | None = "nobody has looked yet"

    async def fresh(self, wait_s: float) -> Any:
        """An answer that is young enough; None where there is none in time, and `trouble` says why."""
        if self._clock() < self._until:
            return self.answer
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask())
        done, _ = await asyncio.wait([self._asking], timeout=wait_s)
        if not done:
            self.trouble = "it has not answered in time"
            return None
        return self.answer

    async def _ask(self) -> None:
        try:
            self.answer, self.trouble = await asyncio.to_thread(self._look), None
        except HeadwaterError as error:
            self.answer, self.trouble = None, str(error)
        except Exception as error:  # a store's own library; the other parts are still to be told
            self.answer, self.trouble = None, f"{type(error).__name__}: {error}"
        finally:
            self._until, self._asking = self._clock() + self._for_s, None


class Scrape:
    """All parts of one process."""

    def __init__(self, context: Context) -> None:
        self._context = context
        health = HealthReader(context.log)
        looks: dict[str, Callable[[], Any]] = {"log": lambda: _log(context.log, health)}
        project = context.project
        if project is not None and project.pipelines:
            looks["views"] = views_seen(context.log, project)
        if project is not None and project.captures:
            looks["captures"] = captures_seen(context.log, project)
        self._paused = Paused(project)
        self._glances = {name: Glance(look, FOR_S[name]) for name, look in looks.items()}

    async def text(self) -> bytes:
        names = list(self._glances)
        found = await asyncio.gather(*(self._glances[name].fresh(WAIT_S) for name in names))
        _WAITING.set(self._context.appender.waiting_bytes)
        self._paused.count()
        answers = {n: each for n, each in zip(names, found, strict=True) if each is not None}
        return generate_latest(_Joined(list(self._collected(answers))))

    async def kafka_text(self) -> bytes:
        """The log alone, by the names that Kafka's own exporters use; nothing where it does not answer."""
        seen: LogSeen | None = await self._glances["log"].fresh(WAIT_S)
        found = [] if seen is None else exporters.of_log(seen.brokers, seen.topics, seen.groups)
        return generate_latest(_Joined(list(found)))

    def _collected(self, answers: dict[str, Any]) -> Iterator[Metric]:
        told: dict[str, Callable[[Any], Iterator[Metric]]] = {
            "log": lambda seen: chain(
                prometheus.of_topics(seen.topics),
                prometheus.of_groups(seen.groups),
                prometheus.of_broker(seen.health),
            ),
            "views": prometheus.of_views,
            "captures": prometheus.of_captures,
        }
        for family in counts.REGISTRY.collect():
            # When each counter was made is of use to nobody, and would be a third of the answer.
            family.samples = [each for each in family.samples if not each.name.endswith("_created")]
            yield family
        yield from _PROCESS.collect()
        yield from prometheus.of_services(self._context.status.services)
        yield from prometheus.of_looks({n: each.trouble for n, each in self._glances.items()})
        for name, answer in answers.items():
            yield from told[name](answer)


@dataclass(frozen=True)
class LogSeen:
    """One look at the log: what both /metrics and /metrics/kafka tell."""

    brokers: topics.Brokers
    topics: list[topics.Topic]
    groups: list[groups.Group]
    health: BrokerHealth | None


def _log(log: Log, health: HealthReader) -> LogSeen:
    return LogSeen(topics.brokers(log), topics.listed(log), groups.listed(log), health.look())


class _Joined:
    """What prometheus_client writes out: anything with `collect`."""

    def __init__(self, found: list[Metric]) -> None:
        self._found = found

    def collect(self) -> list[Metric]:
        return self._found


def router(context: Context) -> APIRouter:
    routes = APIRouter(tags=["process"])
    scrape = Scrape(context)

    @routes.get(
        "/metrics",
        summary="Counters and gauges for Prometheus",
        response_class=PlainTextResponse,
    )
    async def metrics(request: Request) -> Response:
        return counted(request, await scrape.text(), CONTENT_TYPE)

    @routes.get(
        "/metrics/kafka",
        summary="Topics and groups by the names of kafka_exporter and KMinion",
        response_class=PlainTextResponse,
    )
    async def kafka_metrics(request: Request) -> Response:
        return counted(request, await scrape.kafka_text(), CONTENT_TYPE)

    return routes


def views_seen(log: Log, project: Project) -> Callable[[], list[Listed]]:
    """A look at every view that the project declares."""
    declared = Catalogue(project)

    def look() -> list[Listed]:
        from headwater.pipelines.handles import all_listed

        views = declared.all()
        if not views:
            return []
        with log.cluster() as connected:
            return all_listed(views, connected, log.admin)

    return look


def captures_seen(log: Log, project: Project) -> Callable[[], list[CaptureSeen]]:
    """A look at every capture of the project: its position in the log, the lag that its database tells."""

    def look() -> list[CaptureSeen]:
        stored = read_positions(log.bootstrap, project.captures, log.settings)
        return [
            _capture(name, section, stored.get(name), log)
            for name, section in project.captures.items()
        ]

    return look


def _capture(name: str, section: Any, stored: dict[str, Any] | None, log: Log) -> CaptureSeen:
    try:
        source = open_source(from_mapping(name, section, log.bootstrap))
        try:
            lag: Lag | None = source.lag()
        finally:
            source.close()
    except HeadwaterError:
        lag = None  # its own process says why; here the gauge is missing
    position = None if stored is None else stored["position"]
    return CaptureSeen(name, phase_of(position), stored["ts_ms"] if stored else None, lag)
