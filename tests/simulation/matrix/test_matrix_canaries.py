"""A matrix that finds nothing proves nothing: here each mended defect is put back, and it must be found.

A canary names a cell (operation, fault) and how to put the old behaviour back. Seeds are tried until one
finds it; the same seed must pass with the code as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import pytest

from headwater.broker import catalogue_log, excision_request, internal_topics
from headwater.broker.partition import Partition
from headwater.broker.supervisor import Supervisor
from headwater.broker.transactions import coordinator, transitions
from headwater.broker.transactions.state_manager import Timeouts
from headwater.log import compaction, recovery, replay, segment_ends
from headwater.log.commit import Commit
from headwater.log.config import LogConfig
from headwater.log.partition import PartitionLog
from headwater.log.progress import Progress
from headwater.log.store import LogStore
from headwater.record import validate

from .run import Run
from .world import Violation

SEEDS = 60
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")

Break = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Canary:
    """Where the defect shows, and how to put it back."""

    operation: str
    fault: str
    put_back: Break
    found: tuple[str, ...]
    """The violation says one of these."""
    lazy: bool = False
    """It shows with durability=os alone: every fifth seed has that."""
    first: int = 0
    """The seed to begin with, where it takes many."""


def _nothing(*_: object, **__: object) -> None:
    return None


def _ends_that_nobody_looks_at(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(segment_ends, "missing", lambda log: [])


# ---- data that was acknowledged and is gone --------------------------------------------------------


def _names_that_nobody_keeps(patch: pytest.MonkeyPatch) -> None:
    """A topic may be called like the catalogue, and its folder gets the live one out of the way."""
    patch.setattr(internal_topics, "why_not", _nothing)
    patch.setattr(internal_topics, "NEVER_TOPICS", frozenset())
    patch.setattr(LogStore, "_refuse_in_use", _nothing)


def _tidying_that_deletes(patch: pytest.MonkeyPatch) -> None:
    """Whatever catalogue there is counts, and what it does not know goes."""

    def open_log(store: LogStore) -> PartitionLog:
        return store.open_log(catalogue_log.LOG_NAME, 0, LogConfig(compact=True, delete=False))

    patch.setattr(catalogue_log, "open_log", open_log)
    patch.setattr(LogStore, "_set_aside", lambda self, folder, *_: self.files.remove_tree(folder))


def _checkpoints_that_outlive_their_topic(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Progress, "forget", _nothing)
    patch.setattr(Progress, "drop", _nothing)


def _aborts_that_compaction_does_not_know(patch: pytest.MonkeyPatch) -> None:
    """Only those whose marker lies in a segment that is compacted."""
    plan = compaction.plan

    def short_sighted(*given: Any, **more: Any) -> Any:
        found = plan(*given, **more)
        if found is None:
            return None
        end = found.segments[-1].next_offset
        return replace(found, aborted=tuple(a for a in found.aborted if a.last_offset < end))

    patch.setattr(compaction, "plan", short_sighted)


def _state_topics_with_default_configs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(internal_topics, "configs", lambda name, settings, given: dict(given))
    patch.setattr(internal_topics, "broken", lambda name, configs: {})


def _time_out_that_does_not_look_again(patch: pytest.MonkeyPatch) -> None:
    def abort_overdue(self: Any, names: Any = None) -> None:
        now_ms = self._clock.now_ms()
        for name, known in list(self.transactions.items()):
            if transitions.is_overdue(known, now_ms):
                self._spawn(_write(self, name, transitions.fence(known, now_ms)))

    async def _write(self: Any, name: str, value: Any) -> None:
        self.state.change(name, self.transactions.get(name), value)

    patch.setattr(coordinator.TransactionCoordinator, "abort_overdue", abort_overdue)


def _syncs_that_are_tried_again(patch: pytest.MonkeyPatch) -> None:
    """A sync that fails is a message in the log; the next one succeeds, and moves the recovery point."""

    def sync(self: Any) -> None:
        for segment in tuple(self._unsynced.values()):
            segment.file.sync()
        self._unsynced = {}
        self.synced_offset = self.durable_offset

    patch.setattr(PartitionLog, "sync", sync)


def _commits_that_do_not_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Commit, "_sync", _nothing)


def _starts_that_are_not_written_down(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogStore, "checkpoint_starts", _nothing)


# ---- a broker that stops, or stalls ----------------------------------------------------------------


def _errors_that_escape_from_an_append(patch: pytest.MonkeyPatch) -> None:
    def append(self: Any, data: Any, header: Any, now_ms: int) -> int:
        if self._failed is not None or self.log.fenced:
            self._refuse_write()
        offset: int = self.log.stage(data, header, now_ms)
        if not self._committing:
            self._commit()
        return offset

    patch.setattr(Partition, "append", append)


def _tasks_that_die(patch: pytest.MonkeyPatch) -> None:
    """No supervision, and requests taken at their word."""

    async def once(self: Any, name: str, work: Any) -> None:
        await work()

    read = excision_request.read

    def trusting(value: bytes | None) -> Any:
        try:
            return read(value)
        except excision_request.ExcisionRefused as refusal:
            raise ValueError("invalid literal for int() with base 10: 'x'") from refusal

    patch.setattr(Supervisor, "_keep_running", once)
    patch.setattr(Supervisor, "duty", lambda self, name, what="": nullcontext())
    patch.setattr(excision_request, "read", trusting)


def _records_that_nobody_looks_at(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(validate, "check_records", lambda *_: validate.Looked(0, 0, 0, False))


def _state_that_must_be_whole(patch: pytest.MonkeyPatch) -> None:
    def raise_it(self: Any, found: replay.Damage, meaning: str) -> None:
        raise OSError(f"{found}")

    patch.setattr(LogStore, "_keep_damage", raise_it)


def _logs_that_are_read_anew_only_by_a_write(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partition, "_retry", _nothing)


def _segments_that_nobody_misses(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recovery, "_look_for_gaps", _nothing)


def _names_that_segments_keep_for_good(patch: pytest.MonkeyPatch) -> None:
    """What another segment has been given the place of is opened by its name, as any other."""

    def release(self: Any, segments: Any = None) -> None:
        for segment in self.segments[:-1]:
            segment.release()

    patch.setattr(PartitionLog, "release", release)


def _time_outs_by_the_machines_clock(patch: pytest.MonkeyPatch) -> None:
    def is_overdue(self: Any, known: Any) -> bool:
        return transitions.is_overdue(known, self._clock.now_ms())

    patch.setattr(Timeouts, "is_overdue", is_overdue)


CANARIES: dict[str, Canary] = {
    "a topic that is called like the catalogue": Canary(
        "recreate",
        "kill",
        _names_that_nobody_keeps,
        ("was created, and is not there", "The catalogue of topics"),
    ),
    "a start that deletes what the catalogue does not know": Canary(
        "produce", "removed", _tidying_that_deletes, ("was created, and is not there",)
    ),
    "checkpoints that outlive their topic": Canary(
        "recreate", "kill", _checkpoints_that_outlive_their_topic, ("lost: phoenix", "phoenix-0")
    ),
    "a compaction that lets an aborted value win": Canary(
        "compaction", "kill", _aborts_that_compaction_does_not_know, ("lost", "do not end up")
    ),
    "the same in a melee": Canary(
        "melee", "kill", _aborts_that_compaction_does_not_know, ("lost", "do not end up")
    ),
    "state topics that retention empties": Canary(
        "transactions",
        "kill",
        _state_topics_with_default_configs,
        ("is forgotten", "has committed"),
    ),
    "a time-out that writes without looking again": Canary(
        "transactions",
        "kill",
        _time_out_that_does_not_look_again,
        ("committed, and not visible", "torn", "has committed"),
    ),
    "a failed sync that is tried again": Canary(
        "delete-records",
        "failed-sync",
        _syncs_that_are_tried_again,
        ("cannot be read", "lost", "missing"),
        lazy=True,
        first=100,
    ),
    "commits that do not sync": Canary(
        "produce",
        "lost",
        _commits_that_do_not_sync,
        ("lost", "readers have seen", "is not there", "The catalogue of topics"),
    ),
    "start offsets that are not written down": Canary(
        "delete-records", "lost", _starts_that_are_not_written_down, ("was acknowledged",)
    ),
    "the same of a table that is written to": Canary(
        "melee", "lost", _starts_that_are_not_written_down, ("was acknowledged",)
    ),
    "a broker that does not look where segments end": Canary(
        "roll", "removed", _ends_that_nobody_looks_at, ("nobody was told",)
    ),
    "an append that lets the disk's errors through": Canary(
        "roll", "emfile", _errors_that_escape_from_an_append, ("Produce failed", "readers stand at")
    ),
    "background tasks that die for good": Canary(
        "excision", "kill", _tasks_that_die, ("never carried out", "mistake", "never retrieved")
    ),
    "a start that wants every byte of the groups' state": Canary(
        "groups", "altered", _state_that_must_be_whole, ("does not start",), first=30
    ),
    "a poison batch that is accepted": Canary(
        "produce", "kill", _records_that_nobody_looks_at, ("cannot decode",)
    ),
    "a log that only a write reads anew": Canary(
        "compaction",
        "enospc",
        _logs_that_are_read_anew_only_by_a_write,
        ("cannot be read", "the disk is well"),
    ),
    "segments that keep their names though others have their place": Canary(
        "policies",
        "failed-sync",
        _names_that_segments_keep_for_good,
        ("cannot be read",),
        first=445913856,
    ),
    "time-outs by a clock that somebody sets": Canary(
        "transactions", "clock", _time_outs_by_the_machines_clock, ("readers stand at",)
    ),
    "segments that nobody misses": Canary(
        "roll", "removed", _segments_that_nobody_misses, ("nobody was told",), first=10
    ),
}


@pytest.mark.parametrize("name", CANARIES)
def test_the_matrix_finds(name: str) -> None:
    canary = CANARIES[name]
    seed = _first_found(canary)
    assert seed is not None, f"nobody noticed {name} in {SEEDS} runs"
    Run(canary.operation, canary.fault, seed)()


def _first_found(canary: Canary) -> int | None:
    first, step = (canary.first + 4, 5) if canary.lazy else (canary.first, 1)
    for seed in range(first, first + SEEDS * step, step):
        with pytest.MonkeyPatch.context() as patch:
            canary.put_back(patch)
            try:
                Run(canary.operation, canary.fault, seed)()
            except Violation as violation:
                if any(part in str(violation).splitlines()[0] for part in canary.found):
                    return seed
    return None
