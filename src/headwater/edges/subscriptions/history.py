"""What was delivered and how it went: the newest attempts of each subscription, a view of a topic.

    topic    __headwater_deliveries, kept for a week and for 64 MiB, one partition
    key      the subscription's id
    value    JSON of `Attempt`

A service of the edges. Attempts wait in memory, `KEPT` of a subscription at most, and are written together;
while the log is away its oldest are dropped and counted: deliveries never wait for their history, and none
loses its own to a subscription that fails often.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Mapping

import msgspec

from headwater.client.log import Log
from headwater.client.publisher import Draft
from headwater.client.records import Record
from headwater.edges.appender import Appender
from headwater.edges.subscriptions.topic_view import TopicView
from headwater.errors import HeadwaterError

TOPIC = "__headwater_deliveries"
KEPT = 200
"""Of one subscription."""
SUBSCRIPTIONS_MAX = 1_000
READ_BACK = 20_000
AGAIN_S = 1.0
REASON_CHARACTERS = 300
_CONFIGS = {
    "cleanup_policy": "delete",
    "retention_ms": str(7 * 86_400_000),
    "retention_bytes": str(64 * 1024**2),
    "segment_bytes": str(8 * 1024**2),
}


class Attempt(msgspec.Struct, frozen=True):
    """One, of a delivery (`delivery` is the webhook-id) or of a ping."""

    subscription: str
    delivery: str
    attempt: int
    at_ms: int
    took_ms: int
    delivered: bool
    reason: str = ""
    partition: int = -1
    offset: int = -1
    """Where the record lies; of a ping nowhere."""


class History:
    """The service."""

    name = "subscriptions.history"

    def __init__(self, log: Log, appender: Appender) -> None:
        self._appender = appender
        self._waiting: dict[str, deque[Attempt]] = {}
        self._news = asyncio.Event()
        self._kept: OrderedDict[str, deque[Attempt]] = OrderedDict()
        self._lost = 0
        self._view = TopicView(log, TOPIC, _CONFIGS, self._take, back=READ_BACK)

    def facts(self) -> Mapping[str, object]:
        return {"waiting": sum(map(len, self._waiting.values())), "not_written": self._lost}

    async def run(self) -> None:
        self._kept.clear()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._view.run())
            group.create_task(self._write())

    def note(self, attempt: Attempt) -> None:
        line = self._waiting.setdefault(attempt.subscription, deque(maxlen=KEPT))
        self._lost += len(line) == KEPT
        line.append(attempt)
        self._news.set()

    def of(self, subscription: str) -> list[Attempt]:
        """The newest first."""
        return list(reversed(self._kept.get(subscription, ())))

    async def _write(self) -> None:
        await self._view.current()
        while True:
            await self._news.wait()
            self._news.clear()
            some, self._waiting = self._waiting, {}
            drafts = [
                Draft(each.subscription.encode(), msgspec.json.encode(each), partition=0)
                for line in some.values()
                for each in line
            ]
            try:
                await self._appender.append(TOPIC, drafts)
            except HeadwaterError:  # the appender's own words are told elsewhere; this can wait
                self._put_back(some)
                self._news.set()
                await asyncio.sleep(AGAIN_S)

    def _put_back(self, some: Mapping[str, deque[Attempt]]) -> None:
        """Before what was noted since."""
        for name, line in some.items():
            since = self._waiting.get(name, ())
            self._lost += max(0, len(line) + len(since) - KEPT)
            self._waiting[name] = deque((*line, *since), maxlen=KEPT)

    def _take(self, records: list[Record]) -> None:
        for record in records:
            try:
                found = msgspec.json.decode(record.value or b"", type=Attempt)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue  # not ours
            kept = self._kept.setdefault(found.subscription, deque(maxlen=KEPT))
            kept.append(found)
            self._kept.move_to_end(found.subscription)
            if len(self._kept) > SUBSCRIPTIONS_MAX:
                self._kept.popitem(last=False)


ATTEMPT: dict[str, object] = {
    "type": "object",
    "required": ["delivery", "attempt", "at_ms", "took_ms", "delivered", "reason"],
    "properties": {
        "delivery": {"type": "string", "description": "The webhook-id"},
        **{
            name: {"type": "integer"}
            for name in ("attempt", "at_ms", "took_ms", "partition", "offset")
        },
        "delivered": {"type": "boolean"},
        "reason": {"type": "string"},
    },
}
HISTORY: dict[str, object] = {
    "type": "object",
    "required": ["deliveries"],
    "properties": {"deliveries": {"type": "array", "items": ATTEMPT}},
}
