"""Commits that a crash of the machine has lost (they are not synced): no record may be passed over then."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from headwater.pipelines.batch_source import Next
from headwater.pipelines.driver_query import DriverQuery, Work
from headwater.pipelines.slots import Slots


class State:
    """A view's state as `Following` has it: durable, and it passes over batches that it has."""

    keeps_state = True

    def __init__(self) -> None:
        self.batch, self.end = -1, 0

    def apply(self, batch: int, changes: Any, _: Any) -> None:
        if batch <= self.batch:
            return
        assert batch == self.batch + 1
        start, until = changes(self)
        assert start == self.end, f"offsets {self.end} to {start} are passed over"
        self.batch, self.end = batch, until

    def warm_up(self) -> None: ...


class Source:
    """A topic with one partition; every look finds `step` more offsets."""

    def __init__(self, end: int, step: int) -> None:
        self.end, self.step = end, step

    def initial(self) -> dict[str, Any]:
        return {"t": {"0": 0}}

    def after(self, start: dict[str, Any]) -> Next | None:
        at = start["t"]["0"]
        end = {"t": {"0": min(self.end, at + self.step)}}
        return None if at == self.end else Next(end, self.apart(start, end))

    def apart(self, start: dict[str, Any], end: dict[str, Any]) -> Any:
        return lambda _: (start["t"]["0"], end["t"]["0"])


def run(folder: Path, state: State, source: Source) -> None:
    session = SimpleNamespace(sparkContext=SimpleNamespace(setLocalProperty=lambda *_: None))
    work = Work("v", cast(Any, None), folder, cast(Any, None), cast(Any, None), cast(Any, None))
    query = DriverQuery(work, Slots(1), once=True)
    query._batches(cast(Any, session), cast(Any, state), cast(Any, source))


def test_commits_that_were_lost_let_no_record_be_passed_over(tmp_path: Path):
    state = State()
    run(tmp_path, state, Source(end=4, step=1))
    assert (state.batch, state.end) == (3, 4)
    for lost in ("2", "3"):
        (tmp_path / "commits" / lost).unlink()
    run(tmp_path, state, Source(end=10, step=5))
    assert state.end == 10
