"""After a segment was removed, whatever happens to the log in whatever order: no aborted record is seen."""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from headwater.log.files import Files
from tests.broker.inspection.world import repair
from tests.broker.serving import create, serving
from tests.log.holed import SUFFIXES, HoledLog

STEPS = ("clean start", "unclean start", "compaction", "excision", "repair")
PRODUCERS = 3


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a topic that has no records yet."""
    data = tmp_path_factory.mktemp("empty") / "data"
    with serving(data) as broker, broker.wire() as wire:
        create(wire, "paid", cleanup_policy="compact")
    return data


@dataclass(slots=True)
class Story:
    """What was written, and what has become of it."""

    draw: random.Random
    log: HoledLog
    epochs: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(PRODUCERS), 0))
    begun: dict[int, dict[int, bytes]] = field(default_factory=dict)
    """Of each open transaction the values, by their offsets."""
    committed: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    """Each value's offset, and its marker's."""

    def write(self, producer: int) -> None:
        begun = self.begun.setdefault(producer, {})
        offset = self.log.log.next_offset
        begun[offset] = b"%d at %d" % (producer, offset)
        self.log.write(producer, begun[offset], self.epochs[producer], len(begun) - 1)

    def end(self, producer: int, *, commits: bool) -> None:
        marker = self.log.log.next_offset
        self.epochs[producer] += 1
        (self.log.commit if commits else self.log.abort)(producer, self.epochs[producer])
        for offset, value in self.begun.pop(producer).items():
            if commits:
                self.committed[value] = offset, marker

    def fill(self) -> None:
        """A few records to a segment, so that transactions begin, go on and end in others."""
        for _ in range(self.draw.randrange(3, 7)):
            for _ in range(self.draw.randrange(1, 5)):
                producer = self.draw.randrange(PRODUCERS)
                if producer in self.begun and self.draw.random() < 0.5:
                    self.end(producer, commits=self.draw.random() < 0.4)
                else:
                    self.write(producer)
            self.log.roll()
        self.log.plain(b"last")

    def go_on(self) -> None:
        """More is written, sometimes; the next commit of a producer must not speak for what was lost."""
        for producer in range(PRODUCERS):
            if self.draw.random() < 0.4:
                self.write(producer)
            if producer in self.begun and self.draw.random() < 0.4:
                self.end(producer, commits=self.draw.random() < 0.8)
        if self.draw.random() < 0.5:
            self.log.roll()
            self.log.plain(b"last")

    def lose(self, data: Path) -> range:
        """One segment between two others, while the log is stopped or after a kill; the offsets that are
        gone. A repair may come before the next start."""
        clean = self.draw.random() < 0.5
        self.log.stop(clean=clean)
        bases = [segment.base_offset for segment in self.log.log.segments]
        number = self.draw.randrange(1, len(bases) - 1)
        self.log.lose(number, self.draw.choice(list(SUFFIXES)))
        if self.draw.random() < 0.3:
            repair(data)
        self.log.start(clean=clean)
        self.settle()
        return range(bases[number], bases[number + 1])

    def settle(self) -> None:
        """As the coordinator does at a start: what it does not know to be open is aborted."""
        for producer in set(self.log.log.producers.open_transactions) - set(self.begun):
            self.log.abort(producer, self.log.log.producers.by_id[producer].epoch)

    def step(self, name: str, data: Path) -> None:
        if name == "compaction":
            self.log.compact()
        elif name == "excision":
            self.log.excise(b"%d at 0" % self.draw.randrange(PRODUCERS))
        else:
            clean = name == "clean start" or (name == "repair" and self.draw.random() < 0.5)
            self.log.stop(clean=clean)
            if name == "repair":
                repair(data)
            self.log.start(clean=clean)
            self.settle()

    def expected(self, hole: range) -> tuple[set[bytes], set[bytes]]:
        """What must be seen below the last stable offset, and what may be."""
        upper = self.log.log.last_stable_offset()
        must = {
            value
            for value, (offset, marker) in self.committed.items()
            if offset not in hole and marker not in hole and offset < upper
        }
        first = {b"%d at 0" % producer for producer in range(PRODUCERS)}
        return must - first, set(self.committed) | {b"last"}


@pytest.mark.parametrize("seed", range(40))
def test_no_aborted_record_is_seen_and_no_committed_one_is_hidden(
    empty: Path, tmp_path: Path, seed: int
) -> None:
    draw = random.Random(seed)
    data = Path(shutil.copytree(empty, tmp_path / "data"))
    story = Story(draw, HoledLog.opened(Files(), data / "paid-0"))
    story.fill()
    hole = story.lose(data)
    done = []
    for name in (None, *draw.choices(STEPS, k=4)):
        if name is not None:
            done.append(name)
            story.step(name, data)
        must, may = story.expected(hole)
        seen = story.log.committed()
        assert must <= seen <= may, (seed, hole, done)
        story.go_on()
    story.log.stop()
