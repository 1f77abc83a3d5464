"""Any damage at all, from a seed: an inspection never fails, a repaired folder always starts, and every
acknowledged record whose batch was left alone is served.

`make soak` tries more seeds.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headwater.broker.inspection import scan
from headwater.broker.inspection.check import inspect
from headwater.broker.inspection.repair import repair
from headwater.record import batch as batches
from tests.broker.inspection.world import TOPICS, Rows, World, flip, read
from tests.broker.serving import serving

SEEDS = 500 if os.environ.get("HEADWATER_SOAK") else 25

Batches = dict[tuple[str, int, int, int], bytes]
"""(topic, partition, first offset, next offset) → the batch as it was."""


def stored(data: Path) -> Batches:
    found: Batches = {}
    for topic, count in TOPICS.items():
        for number in range(count):
            for path in (data / f"{topic}-{number}").glob("*.log"):
                for header, batch in _batches(path):
                    key = (topic, number, header.base_offset, header.next_offset)
                    found[key] = batch
    return found


def _batches(path: Path) -> Iterator[tuple[batches.BatchHeader, bytes]]:
    data = path.read_bytes()
    for position, header in batches.scan(data):
        yield header, data[position : position + header.size]


def left_alone(data: Path, before: Batches) -> set[tuple[str, int, int]]:
    """Offsets of the records whose batch is still somewhere in its partition's folder, byte by byte, be it
    one that was set aside."""
    kept: set[tuple[str, int, int]] = set()
    whole = {
        (topic, number): b"".join(
            path.read_bytes()
            for name in (f"{topic}-{number}", f"{topic}-{number}.*-stray")
            for path in data.glob(f"{name}/*.log")
        )
        for topic, count in TOPICS.items()
        for number in range(count)
    }
    for (topic, number, first, end), batch in before.items():
        if batch in whole[topic, number]:
            kept.update((topic, number, offset) for offset in range(first, end))
    return kept


def flip_a_bit(dice: random.Random, files: list[Path]) -> None:
    path = dice.choice([each for each in files if each.stat().st_size])
    flip(path, dice.randrange(path.stat().st_size), dice.randrange(8))


def overwrite(dice: random.Random, files: list[Path]) -> None:
    path = dice.choice([each for each in files if each.stat().st_size])
    data = bytearray(path.read_bytes())
    start = dice.randrange(len(data))
    size = dice.randrange(1, 2000)
    data[start : start + size] = dice.choice([b"\0" * size, dice.randbytes(size)])[
        : len(data) - start
    ]
    path.write_bytes(data)


def cut(dice: random.Random, files: list[Path]) -> None:
    path = dice.choice(files)
    os.truncate(path, dice.randrange(path.stat().st_size + 1))


def remove(dice: random.Random, files: list[Path]) -> None:
    dice.choice(files).unlink()


def remove_folder(dice: random.Random, files: list[Path]) -> None:
    folders = sorted({path.parent for path in files if "-" in path.parent.name})
    shutil.rmtree(dice.choice(folders))


def set_aside(dice: random.Random, files: list[Path]) -> None:
    """As a start does that takes it for another topic's; a crash came before the checkpoints."""
    folder = dice.choice(_folders(files))
    folder.rename(folder.with_name(f"{folder.name}.{dice.getrandbits(128):032x}-stray"))
    folder.mkdir()


def take_a_batch_out(dice: random.Random, files: list[Path]) -> None:
    path = dice.choice([each for each in _segments(files) if each.stat().st_size])
    data = path.read_bytes()
    try:
        position, header = dice.choice(list(batches.scan(data)))
    except (batches.RecordError, IndexError):
        return  # it is damaged already
    path.write_bytes(data[:position] + data[position + header.size :])


def tear(dice: random.Random, files: list[Path]) -> None:
    path = dice.choice(_segments(files))
    size = dice.randrange(1, dice.choice((200, 2000)))  # the latter: whole batches, once more
    path.write_bytes(path.read_bytes() + path.read_bytes()[:size])


def _segments(files: list[Path]) -> list[Path]:
    places = [f"{topic}-{number}" for topic, count in TOPICS.items() for number in range(count)]
    return [path for path in files if path.suffix == ".log" and path.parent.name in places]


def _folders(files: list[Path]) -> list[Path]:
    return sorted({path.parent for path in _segments(files)})


def add_garbage(dice: random.Random, files: list[Path]) -> None:
    with dice.choice(files).open("ab") as file:
        file.write(dice.randbytes(dice.randrange(1, 300)))


FAULTS: tuple[Callable[[random.Random, list[Path]], None], ...] = (
    flip_a_bit,
    flip_a_bit,
    overwrite,
    cut,
    remove,
    remove_folder,
    add_garbage,
    set_aside,
    take_a_batch_out,
    tear,
)


def harm(dice: random.Random, data: Path) -> list[str]:
    done = []
    if dice.random() < 0.3:
        (data / ".kafka_cleanshutdown").unlink()
    for _ in range(dice.choice([1, 1, 2, 4])):
        fault = dice.choice(FAULTS)
        files = sorted(
            path
            for path in data.rglob("*")
            if path.is_file() and path.name not in ("meta.properties", ".lock")
        )
        fault(dice, files)
        done.append(fault.__name__)
    return done


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_is_damaged_the_rest_is_served(world: World, seed: int) -> None:
    damaged_and_repaired(world, seed)


def harm_the_first_batch(dice: random.Random, files: list[Path]) -> None:
    """Of a segment that has others."""
    several = [path for path in _segments(files) if len(list(_batches(path))) > 2]
    flip(dice.choice(several), 70)


def test_a_repair_that_takes_intact_batches_along_is_found_out(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The canary: everything behind the first damage in a segment is put aside with it."""
    monkeypatch.setattr(scan, "_resync", lambda reader, *_: (reader.size, None))
    monkeypatch.setattr(sys.modules[__name__], "FAULTS", (harm_the_first_batch,))
    with pytest.raises(AssertionError, match=r"seed 0, after \["):
        damaged_and_repaired(world, 0)


def damaged_and_repaired(world: World, seed: int) -> None:
    dice = random.Random(seed)
    before = stored(world.data)
    done = harm(dice, world.data)
    kept = left_alone(world.data, before)

    inspect(world.data)
    inspect(world.data, quick=True)
    outcome = repair(world.data)
    assert not outcome.failed, f"seed {seed}: {done}"
    left = [each.what for each in outcome.after.wrong if each.remedy is not None]
    assert left == [], f"seed {seed}: {done}"

    with serving(world.data) as broker:
        topics = broker.broker.catalogue.topics
        there = {name: topics[name].partitions for name in TOPICS if name in topics}
        served = read(broker.bootstrap, topics=there)
        committed = read(broker.bootstrap, topics=there, committed=True)
    expected: Rows = {at: row for at, row in world.uncommitted.items() if at in kept}
    missing = {at for at in expected if served.get(at) != expected[at]}
    assert not missing, f"seed {seed}, after {done}: {sorted(missing)[:5]}"
    aborted = {at for at in world.uncommitted if at not in world.committed}
    assert not aborted & set(committed), f"seed {seed}, after {done}: aborted, and visible"
    ended = _topics_with_all_markers(before, kept)
    hidden = {at for at in expected if at in world.committed and at not in committed}
    hidden = {at for at in hidden if at[:2] in ended}
    assert not hidden, f"seed {seed}, after {done}: committed, and hidden {sorted(hidden)[:5]}"


def _topics_with_all_markers(
    before: Batches, kept: set[tuple[str, int, int]]
) -> set[tuple[str, int]]:
    """Partitions in which every transaction can still be ended as it was."""
    broken = {
        (topic, number)
        for (topic, number, first, _), batch in before.items()
        if batches.read_header(batch).is_transactional and (topic, number, first) not in kept
    }
    return {(topic, number) for topic, number, _, _ in before} - broken
