"""A query of the driver's own is left where its batch does not end; a process that is told to stop stops."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headwater.pipelines import driver_query
from headwater.pipelines.batch_source import Next
from headwater.pipelines.driver_query import DriverQuery, Work
from headwater.pipelines.slots import Slots

END = {"t": {"0": 1}}


class Endless:
    """As one whose log is away: its first batch ends when the test does."""

    keeps_state = False

    def __init__(self) -> None:
        self.begun, self.may_end = threading.Event(), threading.Event()

    def apply(self, *_: object) -> None:
        self.begun.set()
        self.may_end.wait()

    def warm_up(self) -> None: ...
    def close(self) -> None: ...


class Source:
    def initial(self) -> dict[str, Any]:
        return {"t": {"0": 0}}

    def after(self, start: dict[str, Any]) -> Next | None:
        return None if start == END else Next(END, lambda _: None)

    def wait(self, _: object, stopped: threading.Event) -> None:
        stopped.wait()

    def close(self) -> None: ...


def test_a_batch_that_does_not_end_is_left_when_the_process_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(driver_query, "STOP_PATIENCE_S", 0.01)
    monkeypatch.setattr(driver_query, "CANCEL_PATIENCE_S", 0.01)
    cancelled: list[str] = []
    context = SimpleNamespace(setLocalProperty=lambda *_: None, cancelJobGroup=cancelled.append)
    session = cast(Any, SimpleNamespace(sparkContext=context))
    monkeypatch.setattr(DriverQuery, "_session", lambda _: session)
    follower = Endless()
    work = Work("v", session, tmp_path, lambda _: follower, cast(Any, None), lambda _: Source())
    query = DriverQuery(work, Slots(1), once=False)
    query.start()
    try:
        assert follower.begun.wait(30)
        assert query.leave() is False and cancelled == [query.runId]
    finally:
        follower.may_end.set()
    query.stop()
    assert not query.isActive and query.exception() is None
