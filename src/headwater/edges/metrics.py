"""GET /metrics for Prometheus: what the edges counted, and how topics, groups, views and captures are.

The log, the stores and the databases are asked when somebody scrapes, and at most every `FOR_S` seconds,
however many scrape. What does not answer within `WAIT_S` is left out of this answer, and `headwater_up` says
so; the question goes on, and the next scrape has it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from fastapi import APIRouter, Response
from prometheus_client import ProcessCollector, generate_latest
from prometheus_client.core import Metric

from headwater.browse import groups, topics
from headwater.browse.health import BrokerHealth, HealthReader
from headwater.browse.log import Log
from headwater.edges import counts, families
from headwater.edges.context import Context
from headwater.edges.metered import captures_seen, views_seen
from headwater.errors import HeadwaterError

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
        self._glances = {name: Glance(look, FOR_S[name]) for name, look in looks.items()}

    async def text(self) -> bytes:
        names = list(self._glances)
        found = await asyncio.gather(*(self._glances[name].fresh(WAIT_S) for name in names))
        _WAITING.set(self._context.appender.waiting_bytes)
        answers = {
            name: answer for name, answer in zip(names, found, strict=True) if answer is not None
        }
        return generate_latest(_Joined(list(self._families(answers))))

    def _families(self, answers: dict[str, Any]) -> Iterator[Metric]:
        told: dict[str, Callable[[Any], Iterator[Metric]]] = {
            "log": lambda seen: chain(
                families.of_topics(seen[0]),
                families.of_groups(seen[1]),
                families.of_broker(seen[2]),
            ),
            "views": families.of_views,
            "captures": families.of_captures,
        }
        for family in counts.REGISTRY.collect():
            # When each counter was made is of use to nobody, and would be a third of the answer.
            family.samples = [each for each in family.samples if not each.name.endswith("_created")]
            yield family
        yield from _PROCESS.collect()
        yield from families.of_services(self._context.status.services)
        yield from families.of_looks({n: each.trouble for n, each in self._glances.items()})
        for name, answer in answers.items():
            yield from told[name](answer)


def _log(
    log: Log, health: HealthReader
) -> tuple[list[topics.Topic], list[groups.Group], BrokerHealth | None]:
    return topics.listed(log), groups.listed(log), health.look()


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
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    async def metrics() -> Response:
        return Response(await scrape.text(), media_type=CONTENT_TYPE)

    return routes
