"""Repairs of compacted topics: what was deleted stays deleted, however compaction went around the damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.log.checkpoints import CLEANED_OFFSET, CLEANED_OFFSETS, read_cleaned_offset
from headwater.log.files import Files
from tests.broker.inspection.world import World, batches_of, checked, flip, mended, read, spoil
from tests.broker.serving import create, serving
from tests.compat.asking import fetch, produce
from tests.compat.batches import batch, read_batches

EAGER = {
    "cleanup_policy": "compact",
    "min_cleanable_dirty_ratio": 0.01,
    "internal_segment_bytes": 2000,
    "delete_retention_ms": 0,
}


def test_a_deleted_key_stays_deleted_after_the_damage_beside_its_tombstone_is_mended(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    with serving(data) as broker, broker.wire() as wire:
        create(wire, "t", **EAGER)
        produce(wire, "t", batch([(b"gone", b"a value")]))
        for number in range(12):
            produce(wire, "t", batch([(b"a%d" % number, b"." * 300)]))
        produce(wire, "t", batch([(b"gone", None)]))
        for number in range(24):
            produce(wire, "t", batch([(b"b%d" % number, b"." * 300)]))
    (damaged,) = [
        path
        for path in (data / "t-0").glob("*.log")
        if any(header.base_offset == 13 for _, header in batches_of(path))
    ]
    spoil(damaged, batches_of(damaged)[-1][0] + 80)

    with serving(data) as broker:
        assert broker.run(broker.broker.cleaner.clean_dirtiest())
        assert broker.call(lambda: broker.log("t").compacted_offset) > 13
    mended(data)

    with serving(data) as broker, broker.wire() as wire:
        for number in range(3):
            for each in range(12):
                produce(wire, "t", batch([(b"c%d-%d" % (number, each), b"." * 300)]))
            while broker.run(broker.broker.cleaner.clean_dirtiest()):
                pass
        found = [key for each in read_batches(fetch(wire, "t", 0).records) for key, _ in each.pairs]
    assert b"gone" not in found


@pytest.mark.parametrize("lost", [CLEANED_OFFSETS, f"t-0/{CLEANED_OFFSET}"])
@pytest.mark.parametrize("how", ["removed", "altered"])
def test_a_topic_that_is_no_longer_compacted_is_whole_though_a_checkpoint_is_lost(
    tmp_path: Path, lost: str, how: str
) -> None:
    """The gaps that compaction has left were called a loss, filled, and until then refused to readers."""
    data = tmp_path / "data"
    with serving(data) as broker, broker.wire() as wire:
        create(wire, "t", **EAGER)
        for number in range(60):
            produce(wire, "t", batch([(b"key-%d" % (number % 3), b"." * 300)]))
        assert broker.run(broker.broker.cleaner.clean_dirtiest())
        forever = {"cleanup.policy": "delete", "retention.ms": "-1"}
        broker.run(broker.broker.catalogue.set_topic_configs("t", forever))
        produce(wire, "t", batch([(b"last", b"one")]))
        offsets = served(broker.bootstrap)
    assert len(offsets) < offsets[-1]
    (data / lost).unlink() if how == "removed" else flip(data / lost, 0)

    assert not [each for each in checked(data).wrong if each.topic == "t"]
    mended(data)
    with serving(data) as broker:
        assert served(broker.bootstrap) == offsets


def served(bootstrap: str) -> list[int]:
    """The offsets that a reader of topic t gets."""
    return [offset for _, _, offset in read(bootstrap, topics={"t": 1})]


def test_a_directory_in_the_place_of_the_cleaned_offset_keeps_no_repair_from_its_work(
    world: World,
) -> None:
    path = world.segments("keyed")[0]
    spoil(path, batches_of(path)[-1][0] + 30)
    beside = world.folder("keyed") / CLEANED_OFFSET
    beside.unlink()
    beside.mkdir()
    mended(world.data)
    assert read_cleaned_offset(Files(), world.folder("keyed")) == 1
