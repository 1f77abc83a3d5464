"""Repairs of compacted topics: what was deleted stays deleted, however compaction went around the damage."""

from __future__ import annotations

from pathlib import Path

from tests.broker.inspection.world import batches_of, flip, mended
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
    flip(damaged, batches_of(damaged)[-1][0] + 80)

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
