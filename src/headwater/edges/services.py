"""What runs beside the HTTP interface: each service in a task of its own, started again when it fails.

    waiting ──▶ running ──failed──▶ waiting, longer each time

The others go on. What each is doing, and why it last failed, stands in `Status`: GET /status shows it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from headwater.errors import HeadwaterError

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 30.0
CALM_S = 30.0
"""One that has run for so long has recovered: its next failure counts as its first."""

_log = logging.getLogger("headwater.edges")


class Service(Protocol):
    """A bridge, a subscription, a rule."""

    @property
    def name(self) -> str:
        """As in the file: `bridges.sensors`."""

    async def run(self) -> None:
        """Until it is cancelled. A HeadwaterError is told in one sentence, others with their traceback."""


@dataclass
class State:
    """Of one service."""

    doing: str = "waiting"
    failures: int = 0
    """In a row."""
    last_failure: str | None = None
    facts: Callable[[], Mapping[str, Any]] | None = None
    """What the service itself wants to show: counts, positions."""

    def as_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"state": self.doing}
        if self.failures:
            shown |= {"failures": self.failures, "last_failure": self.last_failure}
        return shown | dict(self.facts() if self.facts is not None else {})


@dataclass
class Status:
    """Of all services."""

    services: dict[str, State] = field(default_factory=dict)

    def of(self, name: str) -> State:
        return self.services.setdefault(name, State())


async def run_all(services: list[Service], status: Status) -> None:
    """Until it is cancelled."""
    async with asyncio.TaskGroup() as group:
        for service in services:
            group.create_task(keep_running(service, status.of(service.name)), name=service.name)


async def keep_running(service: Service, state: State) -> None:
    facts = getattr(service, "facts", None)
    if facts is not None:
        state.facts = facts
    while True:
        state.doing, began = "running", time.monotonic()
        try:
            await service.run()
        except HeadwaterError as error:
            said = f"{error.sentence} ({error.hint})" if error.hint else str(error)
            _log.warning("%s: %s", service.name, said)
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            _log.exception("%s failed", service.name)
        else:
            said = "it ended by itself"
        calm = time.monotonic() - began > CALM_S
        state.failures = 1 if calm else state.failures + 1
        state.last_failure = said
        state.doing = "waiting"
        await asyncio.sleep(min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** (state.failures - 1)))
