"""What a subscription leaves beside its entry: its group, its dead letters, what is to be delivered again.

Called by `routes`, and by `runner` once it delivers no more for what was deleted. Blocks, but for what
`Upkeep` does after the answer.
"""

from __future__ import annotations

import asyncio
import logging

from headwater.client import groups, ranges
from headwater.client.errors import NotThere, told
from headwater.client.log import TIMEOUT_S, Log
from headwater.client.publisher import Draft
from headwater.edges.caller import SENDER
from headwater.edges.errors import Invalid, Overloaded
from headwater.edges.subscriptions.entry import Entry
from headwater.edges.subscriptions.history import Attempt
from headwater.edges.webhooks import GROUP
from headwater.edges.webhooks.delivery import ID_HEADER
from headwater.edges.webhooks.letters import topics_of
from headwater.edges.workers import Workers
from headwater.errors import HeadwaterError

AT_ONCE_MAX = 20
"""Of one sender."""
REMOVE_TURNS = 30
REMOVE_AGAIN_S = 2.0
_log = logging.getLogger("headwater.edges")


def group_of(entry: Entry) -> str:
    return f"{GROUP}{entry.name}.{entry.id}"


def dead(log: Log, entry: Entry) -> int:
    """How many records lie in its dead letters."""
    try:
        return sum(end - first for first, end in log.ranges(topics_of(entry.service)[0]).values())
    except NotThere:
        return 0


def again_topic(entry: Entry) -> str:
    return topics_of(entry.service)[1]


def copied(log: Log, entry: Entry, attempt: Attempt) -> Draft:
    """The record of a delivery, to be delivered once more under the same id. Raises Invalid."""
    at = (attempt.offset, attempt.offset + 1)
    first, end = log.ranges(entry.topic).get(attempt.partition, (0, 0))
    if not first <= attempt.offset < end:
        raise Invalid("the record is not there any more: retention has taken it")
    for records in ranges.read(log, entry.topic, {attempt.partition: at}):
        for record in records:
            own = [(name, value) for name, value in record.headers if name != ID_HEADER]
            own.append((ID_HEADER, attempt.delivery.encode()))
            return Draft(record.key, record.value, own, partition=0)
    raise Invalid("the record is not there any more: compaction or excision has taken it")


class Upkeep:
    """What is being cleared away, within a bound for each sender."""

    def __init__(self, log: Log, asking: Workers) -> None:
        self._log, self._asking = log, asking
        self._tasks: dict[asyncio.Task[None], str] = {}
        """By whom."""

    def check(self) -> None:
        """Raises Overloaded."""
        if list(self._tasks.values()).count(SENDER.get()) >= AT_ONCE_MAX:
            raise Overloaded("what was deleted is still being cleared away", REMOVE_AGAIN_S)

    def clear(self, entry: Entry) -> None:
        """After the answer."""
        task = asyncio.create_task(self._removed(entry, group_of(entry)))
        self._tasks[task] = SENDER.get()
        task.add_done_callback(self._tasks.pop)

    async def _removed(self, entry: Entry, group: str) -> None:
        """Its group and topics, once no process delivers for it any more."""
        for _ in range(REMOVE_TURNS):
            try:
                await self._asking.run(lambda: _remove(self._log, entry, group))
                return
            except HeadwaterError as error:
                last = error
            await asyncio.sleep(REMOVE_AGAIN_S)
        _log.warning("%s: what it left is still there: %s", entry.service, last)


def _remove(log: Log, entry: Entry, group: str) -> None:
    try:
        groups.delete(log, group)
    except NotThere:
        pass
    there = log.topics()
    for topic in topics_of(entry.service):
        if topic in there:
            with told(f"deleting {topic}", log.bootstrap):
                log.admin.delete_topics([topic], operation_timeout=TIMEOUT_S)[topic].result()
