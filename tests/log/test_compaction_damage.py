"""A segment that was damaged during a compaction, and may be whole again at the next."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from headwater.log import compaction
from headwater.testing.faulty_disk import FaultyDisk

from .compacted import CONFIG, FOLDER, CompactedLog, Pair


class DamagedLog(CompactedLog):
    """One of which a segment cannot be read for a while."""

    def path(self, number: int) -> Path:
        return FOLDER / f"{self.log.segments[number].base_offset:020d}.log"

    def flip(self, path: Path) -> None:
        """Damages it, or (restored from a copy, or it was a bad read) mends it."""
        assert isinstance(self.files, FaultyDisk)
        self.files.flip_bit(path, 30, 3)

    def fill(self, *segments: list[Pair]) -> None:
        for pairs in segments:
            self.append(pairs)
            self.seal()

    def pass_time(self, rounds: int = 3) -> None:
        """Compact it with something new in it, until every tombstone has had its time."""
        for _ in range(rounds):
            self.now_ms += 10_000_000
            self.fill([(b"other", b"1")])
            assert not self.compact().damaged


def test_a_deleted_value_stays_deleted_when_a_damaged_segment_is_whole_again() -> None:
    log = DamagedLog()
    log.fill(
        [(b"a", b"1"), (b"b", b"1")],
        [(b"damaged", b"x" * 50), (b"deleted", b"1")],
        [(b"a", b"3"), (b"deleted", None)],
    )
    path = log.path(1)
    log.flip(path)
    assert len(log.compact().damaged) == 1
    log.flip(path)
    log.pass_time()
    assert log.table() == log.expected_table()


def test_the_same_if_the_segment_was_clean_before_it_was_damaged() -> None:
    log = DamagedLog(replace(CONFIG, segment_bytes=200))
    log.fill([(b"damaged", b"x" * 50), (b"deleted", b"1")])
    log.compact()
    log.fill([(b"a", b"3"), (b"deleted", None)])
    path = log.path(0)
    log.flip(path)
    assert len(log.compact().damaged) == 1
    log.flip(path)
    log.pass_time()
    assert log.table() == log.expected_table()


def test_a_tombstone_has_no_horizon_while_something_cannot_be_read() -> None:
    log = DamagedLog()
    log.fill([(b"damaged", b"x" * 50)], [(b"deleted", None)])
    path = log.path(0)
    log.flip(path)
    log.compact()
    headers = [h for s in log.log.segments[1:] for _, h in s.headers(0, s.size, checked=True)]
    assert not any(header.has_delete_horizon for header in headers)


def test_damage_is_no_reason_to_compact_again_before_there_is_something_new() -> None:
    log = DamagedLog()
    log.fill([(b"damaged", b"x" * 50)], [(b"a", b"1")], [(b"a", b"2")])
    log.flip(log.path(0))
    log.compact()
    assert compaction.plan(log.log, log.now_ms) is None
    log.fill([(b"a", b"3")])
    assert len(log.compact().damaged) == 1
    assert compaction.plan(log.log, log.now_ms) is None


def test_a_log_with_damage_and_more_keys_than_fit_is_compacted_to_its_end() -> None:
    log = DamagedLog()
    log.fill(
        [(b"damaged", b"x" * 50)],
        *([(b"%d" % n, b"x" * 50), (b"%d" % (n + 1), b"x" * 50)] for n in range(20)),
    )
    path = log.path(0)
    log.flip(path)
    rounds = 0
    while compaction.plan(log.log, log.now_ms) is not None:
        assert log.compact(key_bytes_max=400).damaged
        rounds += 1
        assert rounds < 50, "it comes no further"
    assert rounds > 1
    log.flip(path)
    log.fill([(b"0", b"new")])
    while compaction.plan(log.log, log.now_ms) is not None:
        log.compact(key_bytes_max=400)
        rounds += 1
        assert rounds < 100, "it comes no further"
    assert log.table() == log.expected_table()
    assert len(log.records()) <= len(log.table()) + 1  # the newest is not sealed yet


@pytest.mark.parametrize("seed", range(30))
def test_whatever_is_damaged_for_a_while_no_value_is_lost_and_none_comes_back(seed: int) -> None:
    random = Random(seed)
    log = DamagedLog(replace(CONFIG, segment_bytes=random.choice((200, 400, 2000))))
    for _ in range(25):
        log.now_ms += random.choice((10, 10_000_000))
        pairs: list[Pair] = [
            (b"%d" % random.randrange(6), random.choice((None, b"%d" % random.randrange(99) * 20)))
            for _ in range(random.randint(1, 4))
        ]
        log.fill([*pairs, (b"seal", b"x" * 40)])
        paths = [log.path(n) for n in range(len(log.log.segments) - 1)]
        bad = [path for path in paths if random.random() < 0.15 and log.files.size(path)]
        for path in bad:
            log.flip(path)
        log.compact(key_bytes_max=random.choice((300, 1 << 20)))
        for path in bad:
            log.flip(path)
        assert log.table() == log.expected_table(), seed
