"""One cell of the matrix, once: a history, an operation that meets a fault, and what must hold then.

    start ─▶ history ─▶ check ─▶ operation, fault ─▶ check ─▶ restart ─▶ check ─▶ the operation again
          ─▶ time passes ─▶ every duty done? ─▶ check ─▶ restart ─▶ check

HEADWATER_SEED=n runs only that seed; a failure prints the command that runs just it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import cache
from random import Random
from typing import Any

import pytest

from headwater.errors import HeadwaterError
from headwater.testing.faulty_disk import PowerCut
from headwater.testing.volatile import Outcome

from .faults import FAULTS
from .model import Fate, Model
from .operations import OPERATIONS, bystander
from .oracle import Oracle, require
from .world import NoAnswer, Violation, World, simulated

BAD = ("kafka_storage_error", "coordinator_not_available", "unknown_server_error")


class Run:
    """Operation, fault and seed."""

    def __init__(self, operation: str, fault: str, seed: int, at: int | None = None) -> None:
        self.operation, self.fault, self.seed, self.at = operation, fault, seed, at
        self.dice = Random(f"{operation} {fault} {seed}")
        lazy = seed % 5 == 4 and fault not in ("removed", "cut", "altered")
        self.world = World(seed, "os" if lazy else "disk")
        self.oracle = Oracle(self.world, Model())
        self.client = self.oracle.client
        self.story: list[str] = []

    def __call__(self) -> None:
        with pytest.MonkeyPatch.context() as patch:
            simulated(patch, lambda: self.world)
            try:
                self._play()
            except (Violation, NoAnswer, HeadwaterError) as violation:
                raise Violation(self._told(violation)) from violation
            finally:
                self.world.abandon()

    def _told(self, violation: Exception) -> str:
        which = f"nothing_acknowledged_is_lost[{self.operation}-{self.fault}]"
        if self.at is not None:
            which = f"in_any_step[{self.fault}-{self.operation}]"
        story = "".join(f"\n  {line}" for line in [*self.story, *self.world.reports[-5:]])
        refused = "".join(f"\n  refused: {line}" for line in self.client.refusals[-4:])
        at = f" HEADWATER_STEP={self.at}" if self.at is not None else ""
        return (
            f"{violation}\n{self.operation} × {self.fault}, seed {self.seed}{story}{refused}\n"
            f"HEADWATER_SEED={self.seed}{at} python -m pytest "
            f"tests/simulation/matrix/test_matrix.py -k '{which}'"
        )

    def _play(self) -> None:
        self.begin()
        FAULTS[self.fault](self)
        self.check(restarted=True)
        self._again()
        self.finish()

    def begin(self) -> None:
        self.world.start()
        self.do(bystander(self.client))
        self.do(OPERATIONS[self.operation](self.client))
        self.check(restarted=False)

    def finish(self) -> None:
        """Time passes; then every duty has been done, and a restart changes nothing."""
        self.do(self.world.wait(15))
        self.do(self.oracle.ended())
        self.do(self.oracle.excisions_done())
        self.world.clock.advance(130_000)
        self.do(self.world.wait(8))
        self.check(restarted=False)
        self.oracle.nobody_died()
        self.end_somehow()
        self.start()
        self.check(restarted=True)
        for name in tuple(self.oracle.model.producers):
            self.do(self.client.init(name))
        self.world.stop()

    # ---- what faults call --------------------------------------------------------------------------

    def do(self, work: Coroutine[Any, Any, Any]) -> None:
        self.world.run(work)

    def operate(self) -> None:
        """The operation, as far as it comes."""
        try:
            self.do(OPERATIONS[self.operation](self.client))
            self.do(self.world.wait(self.dice.choice((0, 0, 7))))
        except PowerCut as cut:
            self.story.append(f"power cut {cut}")
        except NoAnswer as given_up:
            self.story.append(str(given_up))

    def _again(self) -> None:
        """On a disk that is well nothing is refused for the disk's sake."""
        self.client.successes, self.client.refusals = 0, []
        self.do(OPERATIONS[self.operation](self.client))
        self.oracle.nobody_died()
        require(self.client.successes, "after a restart nothing works any more")
        bad = [each for each in self.client.refusals if each.endswith(BAD)]
        require(not bad, f"the disk is well, and yet: {bad}")
        self.check(restarted=False)

    def live(self, *, is_fenced: bool) -> None:
        """The disk is well again. The broker was not restarted, and does what it did before, unless
        a sync has failed: then only a start may trust the disk."""
        self.do(self.world.wait(3))
        self.check(restarted=False)
        self.oracle.nobody_died()
        if not is_fenced:
            self._again()
            self.do(self.world.wait(10))
            self.do(self.oracle.ended())

    def check(self, *, restarted: bool) -> None:
        if restarted:  # what was decided before is carried out now
            self.do(self.world.wait(1.5))
        self.do(self.oracle.check(restarted=restarted))

    def start(self, again: Callable[[], None] | None = None) -> None:
        try:
            self.world.start()
        except PowerCut as cut:
            assert again is not None
            self.story.append(f"power cut {cut} at start")
            again()
            self.world.start()
        self.world.disk.heal()

    def restart(self) -> None:
        self.end_somehow()
        self.start()

    def end_somehow(self, *ways: str) -> None:
        how = self.dice.choice(ways or ("stop", "kill", "power"))
        self.story.append(f"ended by {how}")
        if self.fault == "failed-sync" and how != "stop":
            self.doubt()
        if how == "stop":
            self.world.stop()
        elif how == "kill":
            self.end_process()
        else:
            self.cut_power(None)

    def end_process(self) -> None:
        self.world.abandon()
        self.world.disk = self.world.disk.kill()

    def cut_power(self, outcome: Outcome | None) -> None:
        if self.world.durability == "os":
            self.forgive()
        self.world.abandon()
        self.world.disk = self.world.disk.crash(outcome=outcome)

    def doubt(self) -> None:
        """Where a sync has failed nobody knows what is on the disk: what was refused may be there."""
        for topic in self.oracle.model.topics:
            for sent in topic.sent.values():
                if sent.fate is Fate.REFUSED:
                    sent.fate = Fate.DOUBTFUL

    def forgive(self) -> None:
        """With durability=os a power cut may take what was not synced: all is in doubt."""
        for topic in self.oracle.model.topics:
            topic.seen.clear()
            topic.end_seen.clear()
            for sent in topic.sent.values():
                if sent.fate is Fate.ACKNOWLEDGED:
                    sent.fate = Fate.DOUBTFUL
        model = self.oracle.model
        for transaction in model.transactions:
            transaction.is_forgotten = True
        for commits in model.commits.values():
            commits.doubtful += commits.history
        for settled in model.settled.values():
            settled.doubtful |= settled.sure
            settled.sure.clear()
        model.producers.clear()
        model.excisions.clear()

    # ---- how much there is to go wrong -------------------------------------------------------------

    def step(self) -> int:
        steps = steps_of(self.operation, self.seed)
        return self.dice.randint(1, steps + 2) if self.at is None else self.at

    def count_of(self, operation: str, pattern: str) -> int:
        count = counts_of(self.operation, self.seed).get(operation, 1)
        return count if pattern == "*" else max(1, count // 2)


@cache
def counts_of(operation: str, seed: int) -> dict[str, int]:
    """What the operation asks of the disk if nothing goes wrong."""
    run = Run(operation, "kill", seed)
    with pytest.MonkeyPatch.context() as patch:
        simulated(patch, lambda: run.world)
        try:
            run.begin()
            before = run.world.disk.counts.copy()
            run.do(OPERATIONS[operation](run.client))
            return dict(run.world.disk.counts - before)
        except Violation:
            return {"write": 20, "sync": 20, "open": 20, "read": 20}
        finally:
            run.world.abandon()


def steps_of(operation: str, seed: int) -> int:
    counts = counts_of(operation, seed)
    return sum(count for name, count in counts.items() if name not in ("open", "read"))
