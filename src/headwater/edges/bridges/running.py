"""The bridges of a project as services of the edges. Called by `edges.app` for `services(context)`.

    in     receive ─▶ store (waits for the log as long as it takes) ─▶ acknowledge
    out    read    ─▶ send  (until it is confirmed)                 ─▶ commit the position

Both ways one batch at a time, so that nothing overtakes: while one is under way, the source or the log
keeps the next. What fails is started again by `services`, with a new connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from headwater.edges import counts
from headwater.edges.bridges import config as sections
from headwater.edges.bridges import letters
from headwater.edges.bridges.config import Config
from headwater.edges.bridges.contract import Bridge, Inbound, Outbound
from headwater.edges.bridges.reading import BATCH, Reading
from headwater.edges.bridges.storing import Storing
from headwater.edges.schemas import Schemas

if TYPE_CHECKING:
    from headwater.edges.context import Context
    from headwater.edges.services import Service


class InboundService:
    """From another system into a topic."""

    def __init__(self, context: Context, config: Config, schemas: Schemas) -> None:
        self.name = f"bridges.{config.name}"
        self._context, self._config = context, config
        has_schema = schemas.get(config.topic) is not None
        check = partial(schemas.complaint, config.topic) if has_schema else None
        self._storing = Storing(context, config, check)
        self._bridge: Bridge | None = None

    async def run(self) -> None:
        # Before the source is asked for anything: what it gives must have a place to go to.
        await asyncio.to_thread(self._context.log.partitions, self._config.topic)
        bridge = self._config.opened(log=self._context.log)
        assert isinstance(bridge, Inbound)
        async with bridge:
            self._bridge = bridge
            while True:
                messages = await bridge.receive()
                await self._storing.store(messages)
                await bridge.stored(messages)

    def facts(self) -> Mapping[str, Any]:
        return {
            **_facts(self._config, self._bridge),
            "records": self._storing.records,
            "dead_letters": self._storing.dead,
            **({"repeated": self._storing.repeated} if self._config.is_once else {}),
            **({"waits_for": said} if (said := self._storing.waits_for) else {}),
        }


class OutboundService:
    """From a topic to another system."""

    def __init__(self, context: Context, config: Config) -> None:
        self.name = f"bridges.{config.name}"
        self._context, self._config = context, config
        self._storing = Storing(context, config)
        self._bridge: Bridge | None = None
        self._sent = 0
        self._most = BATCH

    async def run(self) -> None:
        bridge = self._config.opened(log=self._context.log)
        assert isinstance(bridge, Outbound)
        async with bridge:
            self._bridge = bridge
            reading = Reading(self._context.log, self._config, self._context.edges.name)
            try:
                await reading.open()
                while True:
                    await self._one(reading, bridge)
            finally:
                await reading.close()

    async def _one(self, reading: Reading, bridge: Outbound) -> None:
        records = await reading.next(self._most)
        # After a failure one at a time, then more and more: a queue with room for a few gets on by a few,
        # and a record that breaks the connection is alone with it.
        grown, self._most = min(BATCH, self._most * 2), 1
        refused = await bridge.send(records)
        self._most = grown
        if refused:
            topic = letters.topic_of(self._config)
            drafts = [letters.of_refusal(self._config, each) for each in refused]
            await self._storing.keep(topic, drafts)
        await reading.commit(records)
        self._sent += len(records) - len(refused)
        counts.went(self._config.way, self._config.topic, len(records) - len(refused))

    def facts(self) -> Mapping[str, Any]:
        return {
            **_facts(self._config, self._bridge),
            "records": self._sent,
            "dead_letters": self._storing.dead,
        }


def _facts(config: Config, bridge: Bridge | None) -> dict[str, Any]:
    ends = (config.end.shown, f"topic:{config.topic}")
    source, target = ends if config.is_inbound else ends[::-1]
    shown = dict(bridge.status()) if bridge is not None else {}
    return {"from": source, "to": target, "loses": config.kind.LOSES, **shown}


def services(context: Context) -> list[Service]:
    """One for each section."""
    made: list[Service] = []
    schemas = Schemas.of(context)
    for name, section in context.edges.bridges.items():
        config = sections.read(name, section)
        if config.is_inbound:
            made.append(InboundService(context, config, schemas))
        else:
            made.append(OutboundService(context, config))
    return made
