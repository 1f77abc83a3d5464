"""A matrix that finds nothing proves nothing: here each mended defect is put back, and it must be found.

A canary names a cell (operation, fault) and how to put the old behaviour back. Seeds are tried until one
finds it; the same seed must pass with the code as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from headwater.broker.supervisor import Supervisor
from headwater.broker.transactions import coordinator, moves
from headwater.log.commit import Commit
from headwater.log.store import LogStore

from .run import Run
from .world import Violation

SEEDS = 60

Break = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Canary:
    """Where the defect shows, and how to put it back."""

    operation: str
    fault: str
    put_back: Break
    found: tuple[str, ...]
    """The violation says one of these."""


def _nothing(*_: object, **__: object) -> None:
    return None


# ---- what was mended -------------------------------------------------------------------------------


def _time_out_that_does_not_look_again(patch: pytest.MonkeyPatch) -> None:
    def abort_overdue(self: Any) -> None:
        now_ms = self._clock.now_ms()
        for name, known in list(self.transactions.items()):
            if moves.is_overdue(known, now_ms):
                self._spawn(_write(self, name, moves.fence(known, now_ms)))

    async def _write(self: Any, name: str, value: Any) -> None:
        self._state.change(name, self.transactions.get(name), value)

    patch.setattr(coordinator.TransactionCoordinator, "abort_overdue", abort_overdue)


def _tasks_that_die(patch: pytest.MonkeyPatch) -> None:
    """No supervision, and requests taken at their word."""
    from contextlib import nullcontext

    from headwater.broker import excision_request

    async def once(self: Any, name: str, work: Any) -> None:
        await work()

    read = excision_request.read

    def trusting(value: bytes | None) -> Any:
        try:
            return read(value)
        except excision_request.Refused as refusal:
            raise ValueError("invalid literal for int() with base 10: 'x'") from refusal

    patch.setattr(Supervisor, "_keep_running", once)
    patch.setattr(Supervisor, "duty", lambda self, name, what="": nullcontext())
    patch.setattr(excision_request, "read", trusting)


def _commits_that_do_not_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Commit, "_sync", _nothing)


def _starts_that_are_not_written_down(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogStore, "checkpoint_starts", _nothing)


CANARIES: dict[str, Canary] = {
    "a time-out that writes without looking again": Canary(
        "transactions",
        "kill",
        _time_out_that_does_not_look_again,
        ("committed, and not visible", "torn", "has committed"),
    ),
    "background tasks that die for good": Canary(
        "excision", "kill", _tasks_that_die, ("never carried out", "mistake", "never retrieved")
    ),
    "commits that do not sync": Canary(
        "produce", "lost", _commits_that_do_not_sync, ("lost", "readers have seen", "is not there")
    ),
    "start offsets that are not written down": Canary(
        "delete-records", "lost", _starts_that_are_not_written_down, ("was acknowledged",)
    ),
}


@pytest.mark.parametrize("name", CANARIES)
def test_the_matrix_finds(name: str) -> None:
    canary = CANARIES[name]
    seed = _first_found(canary)
    assert seed is not None, f"nobody noticed {name} in {SEEDS} runs"
    Run(canary.operation, canary.fault, seed)()


def _first_found(canary: Canary) -> int | None:
    for seed in range(SEEDS):
        with pytest.MonkeyPatch.context() as patch:
            canary.put_back(patch)
            try:
                Run(canary.operation, canary.fault, seed)()
            except Violation as violation:
                if any(part in str(violation).splitlines()[0] for part in canary.found):
                    return seed
    return None
