"""Topics come, grow and go; the power fails in every step; each change is there or it is not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

from headwater.broker.broker import Broker
from headwater.testing.clock import ManualClock
from headwater.testing.faulty_disk import FaultyDisk

from .plan import SOAK

ROOT = Path("/data")
OUTCOMES = 30 if SOAK else 3
State = dict[str, tuple[int, dict[str, str]]]
"""Topic → number of partitions, configs."""
Change = tuple[Callable[[Broker], Awaitable[object]], Callable[[State], State]]

CHANGES: list[Change] = [
    (
        lambda broker: broker.topics.create("a", 2, {"retention.ms": "5"}),
        lambda state: state | {"a": (2, {"retention.ms": "5"})},
    ),
    (lambda broker: broker.topics.create("b", 1, {}), lambda state: state | {"b": (1, {})}),
    (
        lambda broker: broker.topics.grow("a", 3),
        lambda state: state | {"a": (3, state["a"][1])},
    ),
    (
        lambda broker: broker.topics.delete("a"),
        lambda state: {name: value for name, value in state.items() if name != "a"},
    ),
    (lambda broker: broker.topics.create("a", 1, {}), lambda state: state | {"a": (1, {})}),
]


def broker_on(disk: FaultyDisk) -> Broker:
    return Broker(ROOT, "127.0.0.1:0", clock=ManualClock(), files=disk)


def state_of(broker: Broker) -> State:
    return {
        topic.name: (topic.partitions, dict(topic.configs))
        for topic in broker.catalogue.topics.values()
    }


class Moment(NamedTuple):
    """The disk at one moment, with what was done for sure by then, and what may be done as well."""

    disk: FaultyDisk
    sure: State
    possible: State


async def all_moments() -> list[Moment]:
    """Make the changes, and keep the disk as it was before each of its steps."""
    disk, moments = FaultyDisk(1), list[Moment]()
    sure: State = {}
    possible: State = {}
    disk.before_each_step(lambda: moments.append(Moment(disk.copy(), sure, possible)))
    async with broker_on(disk) as broker:
        for change, effect in CHANGES:
            possible = effect(sure)
            await change(broker)
            sure = possible
        assert state_of(broker) == sure
    return moments


async def check(disk: FaultyDisk, sure: State, possible: State) -> None:
    async with broker_on(disk) as broker:
        found = state_of(broker)
        assert found in (sure, possible), f"{found} is neither {sure} nor {possible}"
        for name, (partitions, _) in found.items():
            for number in range(partitions):
                assert (name, number) in broker.topics.partitions
        folders = {name for name in disk.list(ROOT) if name[:2] in ("a-", "b-")}
        expected = {f"{name}-{n}" for name, (count, _) in found.items() for n in range(count)}
        assert expected <= folders, "a partition without a folder"
        for name in folders - expected:  # a folder that was only just made is no harm
            assert not any(file.endswith(".log") for file in disk.list(ROOT / name)), name


async def test_a_crash_leaves_every_change_of_topics_whole_or_undone() -> None:
    moments = await all_moments()
    assert len(moments) > 60
    for number, moment in enumerate(moments):
        for outcome in range(OUTCOMES):
            seed = 1000 * number + outcome
            after = moment.disk.kill(seed) if outcome == 0 else moment.disk.crash(seed)
            await asyncio.wait_for(check(after, moment.sure, moment.possible), 20)
