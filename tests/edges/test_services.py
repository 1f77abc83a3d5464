"""Services run beside each other: one that fails is started again, and the others go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.edges import services
from headwater.edges.services import Status, run_all
from headwater.errors import HeadwaterError
from headwater.project import control
from headwater.project.control import Watched


class Failing:
    name = "failing"

    def __init__(self) -> None:
        self.starts = 0
        self.reached = asyncio.Event()

    async def run(self) -> None:
        self.starts += 1
        if self.starts == 3:
            self.reached.set()
            await asyncio.Event().wait()
        raise (
            HeadwaterError("the other side is away", hint="start it")
            if self.starts == 1
            else ValueError("x")
        )


class Calm:
    name = "calm"
    ended = False

    async def run(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.ended = True

    def facts(self) -> dict[str, int]:
        return {"records": 7}


async def test_one_that_fails_is_started_again_and_says_why(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(services, "FIRST_WAIT_S", 0.001)
    failing, calm, status = Failing(), Calm(), Status()
    running = asyncio.create_task(run_all([failing, calm], status))
    async with asyncio.timeout(30):
        await failing.reached.wait()
    assert status.of("failing").as_json() == {
        "state": "running", "failures": 2, "last_failure": "ValueError: x",
    }  # fmt: skip
    assert status.of("calm").as_json() == {"state": "running", "records": 7}
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert calm.ended


async def test_one_that_runs_again_is_no_failing_one(monkeypatch: pytest.MonkeyPatch):
    """/status told of a failure until the next one came, however long ago it was."""
    monkeypatch.setattr(services, "FIRST_WAIT_S", 0.001)
    monkeypatch.setattr(services, "CALM_S", 0.05)
    status = Status()
    running = asyncio.create_task(run_all([Failing()], status))
    await _until(lambda: status.of("failing").as_json() == {"state": "running"})
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


class Counted(Calm):
    name = "bridges.sensors"
    starts = 0

    async def run(self) -> None:
        self.starts += 1
        await super().run()


async def _until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():
            await asyncio.sleep(0.01)


async def test_one_is_paused_resumed_and_restarted_while_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(services, "CONTROL_S", 0.01)
    one, other, status = Counted(), Calm(), Status()
    control.ask(tmp_path, one.name, "pause", "User:ann")
    running = asyncio.create_task(run_all([one, other], status, Watched(tmp_path)))
    await _until(lambda: status.of(one.name).doing == "paused")
    await _until(lambda: status.of(other.name).doing == "running")
    assert one.starts == 0
    control.ask(tmp_path, one.name, "resume", "User:ann")
    await _until(lambda: one.starts == 1)
    control.ask(tmp_path, one.name, "restart", "User:ann")
    await _until(lambda: one.starts == 2)
    control.ask(tmp_path, one.name, "pause", "User:ann")
    await _until(lambda: status.of(one.name).doing == "paused")
    assert one.ended and not other.ended and status.of(one.name).failures == 0
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert other.ended
