"""The ring buffer: oldest first, by age, by size, by DeleteRecords, and never what is not durable."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.log import retention
from headwater.log.config import LogConfig
from headwater.log.partition import PartitionLog
from headwater.log.recovery import open_partition

from .plain import FOLDER, NOW_MS, append, new_disk, new_log, opened, stage

DAY_MS = 24 * 3600 * 1000


def log_of(*timestamps: int, **config: Any) -> PartitionLog:
    """One segment for each timestamp, and an empty active one."""
    log = new_log(**({"retention_ms": DAY_MS} | config))
    for timestamp in timestamps:
        append(log, b"x" * 100, timestamp=timestamp)
        log.roll(NOW_MS)
        log.flush()
    return log


def test_a_segment_goes_when_its_latest_record_is_too_old() -> None:
    log = log_of(NOW_MS - DAY_MS - 1, NOW_MS - DAY_MS, NOW_MS)
    assert retention.expired(log, NOW_MS) == 1
    assert retention.expired(log, NOW_MS + 1) == 2
    assert retention.expired(log, NOW_MS + 2 * DAY_MS) == 3


def test_an_old_segment_behind_a_young_one_waits() -> None:
    log = log_of(NOW_MS, NOW_MS - 2 * DAY_MS)
    assert retention.expired(log, NOW_MS) == 0


def test_the_active_segment_may_be_too_old_as_well() -> None:
    log = new_log(retention_ms=DAY_MS)
    append(log, b"x", timestamp=NOW_MS - 2 * DAY_MS)
    assert retention.expired(log, NOW_MS) == 1 == len(log.segments)


def test_an_empty_active_segment_stays() -> None:
    log = log_of(NOW_MS - 2 * DAY_MS)
    assert retention.expired(log, NOW_MS) == 1
    assert len(log.segments) == 2


def test_records_without_a_time_age_with_their_segment() -> None:
    log = log_of(-1)
    assert retention.expired(log, NOW_MS + DAY_MS) == 0
    assert retention.expired(log, NOW_MS + DAY_MS + 1) == 1


def test_a_log_goes_down_to_its_size_and_not_below() -> None:
    log = log_of(NOW_MS, NOW_MS, NOW_MS)
    one = log.segments[0].size
    for kept, dropped in ((0, 3), (1, 2), (one, 2), (one + 1, 1), (3 * one, 0), (-1, 0)):
        sized = log_of(NOW_MS, NOW_MS, NOW_MS, retention_bytes=kept)
        assert retention.expired(sized, NOW_MS) == dropped, kept


def test_deleted_segments_go_whatever_the_policy() -> None:
    log = log_of(NOW_MS, NOW_MS, NOW_MS, retention_ms=-1, delete=False)
    log.delete_before(1)
    assert retention.expired(log, NOW_MS) == 1
    log.delete_before(3)
    assert retention.expired(log, NOW_MS) == 3


def test_without_the_delete_policy_nothing_is_too_old_or_too_large() -> None:
    log = log_of(0, 0, delete=False, compact=True, retention_bytes=0)
    assert retention.expired(log, NOW_MS) == 0


def test_without_a_bound_nothing_goes() -> None:
    assert retention.expired(log_of(0, 0, retention_ms=-1), NOW_MS) == 0


def test_what_is_not_durable_never_goes() -> None:
    log = new_log(retention_ms=DAY_MS)
    append(log, b"x", timestamp=0)
    stage(log, b"y", timestamp=0)
    assert retention.expired(log, NOW_MS) == 0
    log.roll(NOW_MS)
    assert retention.expired(log, NOW_MS) == 0
    log.flush()
    assert retention.expired(log, NOW_MS) == 1


def test_the_age_of_a_segment_survives_a_crash_before_its_time_index_was_complete() -> None:
    disk = new_disk()
    log = new_log(disk, retention_ms=DAY_MS)
    append(log, b"old", timestamp=NOW_MS - 5 * DAY_MS)
    append(log, b"young", timestamp=NOW_MS)
    log, _ = opened(disk := disk.kill(), log.config)
    log.roll(NOW_MS)
    again, _ = opened(disk.kill(), log.config)
    assert len(again.segments) == 2
    assert retention.expired(again, NOW_MS) == 0


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_segments_age_goes_on_over_restarts(is_clean: bool) -> None:
    disk, config = new_disk(), LogConfig(compact=True, max_compaction_lag_ms=10_000)
    log, _ = opened(disk, config)
    append(log, b"value")
    log.close() if is_clean else log.abandon()
    for later_ms in (6000, 9000):
        log, _ = open_partition(disk, FOLDER, config, NOW_MS + later_ms, clean=is_clean)
        assert not log.is_overdue(NOW_MS + later_ms)
        assert log.is_overdue(NOW_MS + 10_001)
        log.close() if is_clean else log.abandon()


def test_a_segment_goes_on_to_be_closed_by_its_records_time_over_a_restart() -> None:
    disk, config = new_disk(), LogConfig(segment_ms=10_000)
    log, _ = opened(disk, config)
    append(log, b"first")
    log.close()
    log, _ = opened(disk, config, clean=True)
    append(log, b"second", timestamp=NOW_MS + 10_000)
    assert len(log.segments) == 1
    append(log, b"third", timestamp=NOW_MS + 10_001)
    assert len(log.segments) == 2
