"""Segments roll by size, by time and by index; offsets go on, and time can be found across them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from headwater.testing import ManualClock
from tests.broker.serving import Serving, create, serving
from tests.compat.asking import MAX_TIMESTAMP, offset_at, produce, read_all
from tests.compat.batches import NOW_MS, batch
from tests.compat.wire import ErrorCode, Wire

HOUR_MS = 3_600_000


def put(wire: Wire, topic: str, times: list[int], size: int = 50) -> int:
    row = produce(wire, topic, batch([(None, bytes(size))] * len(times), timestamps=times))
    assert row.error_code is ErrorCode.none, row
    return int(row.base_offset)


def segments(broker: Serving, topic: str) -> list[int]:
    return sorted(int(path.stem) for path in broker.broker.data.glob(f"{topic}-0/*.log"))


def test_a_segment_is_never_larger_than_it_may_be(data: Path) -> None:
    with serving(data) as broker, broker.wire() as wire:
        create(wire, "t", internal_segment_bytes=5000)
        for number in range(40):
            put(wire, "t", [NOW_MS], size=number * 30)
        sizes = [path.stat().st_size for path in data.glob("t-0/*.log")]
        assert max(sizes) <= 5000
        assert len(sizes) > 4
        found = read_all(wire, "t")
        assert [each.base_offset for each in found] == list(range(40))
        too_large = produce(wire, "t", batch([(None, bytes(6000))]))
        assert too_large.error_code in (
            ErrorCode.message_too_large,
            ErrorCode.record_list_too_large,
        )


@pytest.mark.parametrize("how", ["segment_ms", "log.roll.ms"])
def test_a_segment_rolls_when_its_records_span_too_much_time(data: Path, how: str) -> None:
    clock = ManualClock(NOW_MS)
    topic = {"segment_ms": HOUR_MS} if how == "segment_ms" else {}
    settings = {"log.roll.ms": HOUR_MS} if how == "log.roll.ms" else {}
    with serving(data, settings, clock=clock) as broker, broker.wire() as wire:
        create(wire, "t", **topic)
        for minutes in (0, 30, 30, 1, 1, 138):
            clock.advance(minutes * 60_000)
            put(wire, "t", [clock.now_ms()])
        assert segments(broker, "t") == [0, 3, 5]
    with serving(data, settings, clock=clock) as broker, broker.wire() as wire:
        put(wire, "t", [clock.advance(10 * 60_000)])
        assert segments(broker, "t") == [0, 3, 5], "a restart does not forget a segment's age"
        assert len(read_all(wire, "t")) == 7


def test_a_full_index_rolls_its_segment(data: Path) -> None:
    with serving(data) as broker, broker.wire() as wire:
        create(wire, "t", segment_index_bytes=1100, index_interval_bytes=100)
        for _ in range(300):
            put(wire, "t", [NOW_MS], size=200)
        assert len(segments(broker, "t")) == 3
        assert max(path.stat().st_size for path in data.glob("t-0/*.index")) == 1096
        assert len(read_all(wire, "t")) == 300


def test_no_index_is_so_small_that_each_batch_has_a_segment_of_its_own(data: Path) -> None:
    with serving(data) as broker, broker.wire() as wire:
        create(wire, "t", segment_index_bytes=4, index_interval_bytes=0)
        for _ in range(20):
            put(wire, "t", [NOW_MS])
        assert segments(broker, "t") == [0]


# ---- looking for a time ------------------------------------------------------------------------------


def first_at(times: list[int], wanted: int, start: int = 0) -> int:
    """What ListOffsets must answer: the first offset whose record is at or after that time."""
    return next((n for n, time in enumerate(times) if n >= start and time >= wanted), -1)


@pytest.fixture(scope="module")
def scattered(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """Times that go forward on the whole, back and forth in detail, over many segments."""
    data = tmp_path_factory.mktemp("times") / "data"
    dice, times = random.Random(5), []
    with serving(data) as broker, broker.wire() as wire:
        create(wire, "t", internal_segment_bytes=900, index_interval_bytes=100, retention_ms=-1)
        for number in range(80):
            about = NOW_MS - 10_000_000 + number * 1000
            block = [about + dice.randrange(-4000, 4000) for _ in range(dice.randrange(1, 6))]
            put(wire, "t", block, size=20)
            times += block
        assert len(segments(broker, "t")) > 10
    return data, times


def test_the_first_record_at_or_after_any_time_is_found(
    scattered: tuple[Path, list[int]],
) -> None:
    data, times = scattered
    dice = random.Random(6)
    with serving(data) as broker, broker.wire() as wire:
        asked = [min(times) - 1, max(times), max(times) + 1, *times[:3]]
        asked += [dice.randrange(min(times), max(times)) for _ in range(150)]
        for wanted in asked:
            found = offset_at(wire, "t", wanted)
            expected = first_at(times, wanted)
            assert found.offset == expected, wanted
            assert found.timestamp == (times[expected] if expected >= 0 else -1)


def test_the_record_with_the_latest_time_is_found_wherever_it_is(
    scattered: tuple[Path, list[int]],
) -> None:
    data, times = scattered
    with serving(data) as broker, broker.wire() as wire:
        assert offset_at(wire, "t", MAX_TIMESTAMP).offset == times.index(max(times))
        early = max(times) + 5000
        times = [*times, early]
        put(wire, "t", [early])
        for _ in range(30):
            put(wire, "t", [NOW_MS - 20_000_000])
            times.append(NOW_MS - 20_000_000)
        assert offset_at(wire, "t", MAX_TIMESTAMP).offset == times.index(early)
        assert offset_at(wire, "t", early + 1).offset == -1


def test_what_was_deleted_is_not_found_by_its_time(data: Path) -> None:
    times = [NOW_MS + n for n in (5, 1, 9, 2, 3, 8, 4)]
    with serving(data) as broker, broker.wire() as wire:
        create(wire, "t")
        put(wire, "t", times[:4])
        put(wire, "t", times[4:])
        for start in range(8):
            rows = [{"partition_index": 0, "offset": start}]
            topics = [{"name": "t", "partitions": rows}]
            wire.ask("delete_records", 2, topics=topics, timeout=9000)
            for wanted in range(NOW_MS, NOW_MS + 11):
                assert offset_at(wire, "t", wanted).offset == first_at(times, wanted, start)
            left = times[start:]
            latest = times.index(max(left)) if left else -1
            assert offset_at(wire, "t", MAX_TIMESTAMP).offset == latest


def test_an_empty_log_has_no_time(shared: Serving, wire: Wire, topic: str) -> None:
    create(wire, topic)
    for wanted in (0, NOW_MS, MAX_TIMESTAMP):
        assert offset_at(wire, topic, wanted).offset == -1
