"""Many producers and consumers in transactions; broker and clients are killed at any moment.

Then: nothing committed is lost or there twice, nothing aborted is read, no transaction is torn, and
offsets and output are in step. HEADWATER_SEED chooses the same kills again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from tests.compat.wire import Wire, connected

from .clients import create_topic
from .history import judge_results, judge_sources, outcome, read_committed
from .process import BrokerProcess
from .transactional_worker import EXIT_FENCED, ORDERS, PARTITIONS

SOAK = os.environ.get("HEADWATER_SOAK") == "1"
ROUNDS = int(os.environ.get("HEADWATER_ROUNDS") or (150 if SOAK else 4))
ROOT = Path(__file__).parents[2]
WORKERS = {
    "source-a": "source-by-hand",
    "source-b": "source-by-hand",
    "source-c": "source-confluent",
    "hand-0": "transform-by-hand",
    "conf-0": "transform-confluent",
    "conf-1": "transform-confluent",
}
RESULTS = {"results-hand-0": "hand-0", "results-conf": "conf"}


STANDSTILL_S = 150
SETTINGS = {
    "group.min.session.timeout.ms": 500,
    "group.initial.rebalance.delay.ms": 0,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
}


class Crew:
    """The workers: one process for each name, replaced when it has ended or been killed."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.bootstrap = bootstrap
        self.folder = folder
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.fenced = 0
        self._old: list[subprocess.Popen[bytes]] = []
        self._started = 0

    def start(self, name: str) -> None:
        """A new incarnation; if there is one already, it will be fenced."""
        self._started += 1
        before = self.running.get(name)
        if before is not None:
            self._old.append(before)
        words = [sys.executable, "-m", "tests.crash.transactional_worker", WORKERS[name]]
        words += [self.bootstrap, name, f"{name}.{self._started}", str(self.folder)]
        log = (self.folder / f"{name}.{self._started}.log").open("wb")
        self.running[name] = subprocess.Popen(
            words, stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": str(ROOT)}
        )
        log.close()

    def kill(self, name: str) -> None:
        self.running[name].kill()
        self.running.pop(name).wait()
        self.start(name)

    def check(self, ending: bool = False) -> None:
        """Old ones end because they are fenced, sources because they are told to; nothing else."""
        for each in list(self._old):
            if each.poll() is not None:
                assert each.returncode in (EXIT_FENCED, 0), self.said()
                self.fenced += each.returncode == EXIT_FENCED
                self._old.remove(each)
        for name, each in list(self.running.items()):
            if each.poll() == EXIT_FENCED:  # by its own older self, which began later than it
                del self.running[name]
                self.start(name)
            else:
                ended = each.poll() is not None and not (ending and name.startswith("source"))
                assert not ended, f"{name} ended: {self.said()}"

    def said(self) -> str:
        for each in self.running.values():
            if each.poll() is None:
                each.send_signal(signal.SIGUSR1)
        time.sleep(0.5)  # for their stacks to be written; nothing tells when that is done
        texts = [(path.name, path.read_text()) for path in self.folder.glob("*.log")]
        return "\n".join(f"{name}: {text[-1500:]}" for name, text in texts if text)

    def end(self) -> None:
        for each in (*self.running.values(), *self._old):
            if each.poll() is None:
                each.kill()
            each.wait()


def progress(folder: Path) -> int:
    return sum(path.read_bytes().count(b"committed") for path in folder.glob("*.journal"))


def wait_for(condition: object, crew: Crew, what: str, ending: bool = False) -> None:
    """Fails when for long nothing was committed any more, however far away the condition is."""
    deadline, before = time.monotonic() + STANDSTILL_S, -1
    while not condition():  # type: ignore[operator]
        crew.check(ending)
        if (now := progress(crew.folder)) != before:
            deadline, before = time.monotonic() + STANDSTILL_S, now
        assert time.monotonic() < deadline, f"waited for {what}; {crew.said()}"
        time.sleep(0.01)


@pytest.mark.timeout(400 + 20 * ROUNDS)
def test_no_transaction_is_lost_torn_or_doubled(
    broker: BrokerProcess, tmp_path: Path, dice: Random, say: list[str]
) -> None:
    broker.stop()
    broker.start(**SETTINGS)
    create_topic(broker.bootstrap, ORDERS, PARTITIONS, **{"segment.ms": "1500"})
    for topic in RESULTS:
        create_topic(broker.bootstrap, topic, 1)
    crew = Crew(broker.bootstrap, tmp_path)
    try:
        for name in WORKERS:
            crew.start(name)
        kills = run(broker, crew, tmp_path, dice)
        (tmp_path / "stop-sources").touch()
        sources = [name for name in WORKERS if name.startswith("source")]
        wait_for(
            lambda: all(crew.running[name].poll() == 0 for name in sources),
            crew,
            "the sources to end",
            ending=True,
        )
        judge(broker.bootstrap, crew, tmp_path, kills, say)
    finally:
        crew.end()


def run(broker: BrokerProcess, crew: Crew, folder: Path, dice: Random) -> dict[str, int]:
    """Kill somebody, again and again, each time after some progress."""
    kills = {"broker": 0, "client": 0, "fenced": 0}
    wait_for(lambda: progress(folder) > 20, crew, "the first transactions")
    for _ in range(ROUNDS):
        wanted = progress(folder) + dice.randint(1, 60)
        wait_for(lambda w=wanted: progress(folder) >= w, crew, "progress")  # type: ignore[misc]
        time.sleep(dice.random() * 0.02)  # so that the moment is not always right after a commit
        what = dice.choices(("broker", "client", "fenced"), (3, 2, 1))[0]
        kills[what] += 1
        if what == "broker":
            broker.kill()
            broker.start(**SETTINGS)
        elif what == "client":
            crew.kill(dice.choice(list(WORKERS)))
        else:
            crew.start(dice.choice(list(WORKERS)))
    return kills


def judge(bootstrap: str, crew: Crew, folder: Path, kills: dict[str, int], say: list[str]) -> None:
    with connected(bootstrap) as wire:
        wrong, sentence = verdict(wire, crew, folder)
    say.append(
        f"{sentence}; kill -9: {kills['broker']} of the broker, {kills['client']} of clients; "
        f"{kills['fenced']} taken over while alive; lost, doubled, torn or wrongly read: {len(wrong)}"
    )
    assert not wrong, wrong[:20]


def verdict(wire: Wire, crew: Crew, folder: Path) -> tuple[list[str], str]:
    known = outcome(folder, "source")
    inputs = read_committed(wire, ORDERS, PARTITIONS)
    wrong = judge_sources(inputs, known)
    transformed = 0
    for topic, prefix in RESULTS.items():
        wait_for(lambda t=topic: _is_done(wire, t, len(inputs)), crew, topic, ending=True)  # type: ignore[misc]
        wrong += judge_results(inputs, read_committed(wire, topic, 1))
        transformed += outcome(folder, prefix).total
    return wrong, (
        f"transactions: {known.total} of sources ({len(known.committed)} committed, "
        f"{len(known.aborted)} aborted, {len(known.doubtful)} in doubt), {transformed} of "
        f"transformers, {len(inputs)} committed records, each {len(RESULTS)} times transformed"
    )


def _is_done(wire: Wire, topic: str, wanted: int) -> bool:
    try:
        return len(read_committed(wire, topic, 1)) >= wanted
    except AssertionError:
        return False  # a transformer is in the middle of one
