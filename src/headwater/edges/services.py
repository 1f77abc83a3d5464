"""What runs beside the HTTP interface: each service in a task of its own, started again when it fails.

    waiting ──▶ running ──failed──▶ waiting, longer each time
                   └──asked for──▶ paused, until it is resumed

The others go on. What each is doing, and why it last failed, stands in `Status`: GET /status shows it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from headwater.edges import counts
from headwater.edges.caller import SENDER
from headwater.errors import HeadwaterError
from headwater.project import troubles
from headwater.project.control import Watched, folder_of, names_of
from headwater.project.file import Project
from headwater.project.troubles import Trouble

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 30.0
CALM_S = 30.0
"""One that has run for so long has recovered: nothing troubles it any more."""

REASON_CHARACTERS_MAX = 500
CONTROL_S = 0.5
"""Between two looks at what people want."""

_log = logging.getLogger("headwater.edges")
_ALL_PAUSED = counts.gauge(
    "headwater_paused", "1 while somebody has paused a process, view, bridge or webhook", ("name",)
)
_PAUSED = counts.gauge(
    "headwater_edge_paused", "1 while somebody has paused a bridge or a webhook", ("service",)
)


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

    def recovered(self) -> None:
        self.failures, self.last_failure = 0, None

    def as_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"state": self.doing}
        if self.failures:
            shown |= {"failures": self.failures, "last_failure": self.last_failure}
        return shown | dict(self.facts() if self.facts is not None else {})

    @property
    def trouble(self) -> str | None:
        """Why it gets nothing done, though its process runs; None where it does, or is paused."""
        if self.doing == "waiting" and self.failures:
            return self.last_failure
        facts = self.facts() if self.facts is not None and self.doing == "running" else {}
        said = facts.get("trouble")
        return None if said is None else str(said)


@dataclass
class Status:
    """Of all services."""

    services: dict[str, State] = field(default_factory=dict)

    def of(self, name: str) -> State:
        return self.services.setdefault(name, State())


async def run_all(services: list[Service], status: Status, control: Watched | None = None) -> None:
    """Until it is cancelled; `control`: what people want of them."""
    async with asyncio.TaskGroup() as group:
        for service in services:
            running = keep_running(service, status.of(service.name), control)
            group.create_task(running, name=service.name)


async def keep_running(service: Service, state: State, control: Watched | None = None) -> None:
    """In a task of its own: what all have in common, it has its own share of."""
    SENDER.set(f"service {service.name}")
    facts = getattr(service, "facts", None)
    if facts is not None:
        state.facts = facts
    while True:
        if control is not None:
            await _resumed(service.name, state, control)
        state.doing = "running"
        calm = asyncio.get_running_loop().call_later(CALM_S, state.recovered)
        try:
            await (service.run() if control is None else _until_asked(service, control))
        except _Asked:
            state.recovered()
            continue
        except HeadwaterError as error:
            said = f"{error.sentence} ({error.hint})" if error.hint else str(error)
            _log.warning("%s: %s", service.name, said)
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            _log.exception("%s failed", service.name)
        else:
            said = "it ended by itself"
        finally:
            calm.cancel()
        state.failures += 1
        state.last_failure = said
        state.doing = "waiting"
        await asyncio.sleep(min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** (state.failures - 1)))


class Reporter:
    """Tells the console what troubles services, by the project's folder."""

    def __init__(self, status: Status, project: Project) -> None:
        self._status, self._folder = status, folder_of(project)
        self._told: dict[str, Trouble] | None = None

    async def run(self) -> None:
        while True:
            self.tell()
            await asyncio.sleep(CONTROL_S)

    def tell(self) -> None:
        known, found = self._told or {}, dict[str, Trouble]()
        for name, state in self._status.services.items():
            if (reason := state.trouble) is not None:
                before = known.get(name)
                since = time.time() if before is None else before.since
                found[name] = Trouble(reason[:REASON_CHARACTERS_MAX], since)
        if found == self._told:
            return
        try:
            troubles.write(self._folder, found)
            self._told = found
        except OSError as error:
            _log.warning("what troubles services cannot be told: %s", error)


class Paused:
    """Of all that a project has, what somebody has paused: told when somebody scrapes."""

    def __init__(self, project: Project | None) -> None:
        self._project = project
        self._control = None if project is None else Watched(folder_of(project))

    def count(self) -> None:
        if self._control is None or self._project is None:
            return
        paused = self._control.look().paused
        _ALL_PAUSED.clear()
        for name in dict.fromkeys((*names_of(self._project), *paused)):
            _ALL_PAUSED.labels(name).set(name in paused)


class _Asked(Exception):
    """Somebody wants it paused, or started anew."""


async def _resumed(name: str, state: State, control: Watched) -> None:
    """Once nobody wants it paused."""
    while True:
        is_paused = name in control.look().paused
        _PAUSED.labels(name).set(is_paused)
        if not is_paused:
            return
        if state.doing != "paused":
            _log.info("%s: paused by %s", name, control.now.paused[name].by)
        state.doing = "paused"
        await asyncio.sleep(CONTROL_S)


async def _until_asked(service: Service, control: Watched) -> None:
    """Its run; raises _Asked once it has been ended for somebody."""
    before = control.look().restarts.get(service.name)
    working = asyncio.create_task(service.run())
    try:
        while not working.done():
            await asyncio.wait([working], timeout=CONTROL_S)
            now = control.look()
            if service.name in now.paused or now.restarts.get(service.name) != before:
                raise _Asked
        working.result()
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
