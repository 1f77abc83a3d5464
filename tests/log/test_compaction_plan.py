"""Whether a log is compacted, how far, and which segments become one."""

from __future__ import annotations

from dataclasses import replace

from headwater.log import compaction
from headwater.log.compaction_plan import Plan
from headwater.log.survivors import LastOfProducer
from headwater.record import control

from .compacted import CONFIG, NOW_MS, CompactedLog

BIG = replace(CONFIG, segment_bytes=1 << 20)


def plan_of(log: CompactedLog) -> Plan | None:
    return compaction.plan(log.log, log.now_ms)


def test_a_log_that_is_not_compacted_has_no_plan() -> None:
    log = CompactedLog(replace(BIG, compact=False))
    log.append([(b"k", b"v")])
    log.seal()
    assert plan_of(log) is None


def test_the_active_segment_is_never_touched() -> None:
    log = CompactedLog(BIG)
    log.append([(b"k", b"1")])
    log.append([(b"k", b"2")])
    assert plan_of(log) is None
    log.seal()
    assert log.plan().end_offset == 2


def test_a_segment_waits_until_the_commit_that_seals_it_is_known_to_be_over() -> None:
    log = CompactedLog(BIG)
    log.append([(b"k", b"1")])
    log.log.roll(NOW_MS)
    log.log.flush()
    assert plan_of(log) is None
    log.append([(b"k", b"2")])
    assert log.plan().end_offset == 1


def test_nothing_that_is_only_staged_counts() -> None:
    log = CompactedLog(BIG)
    log.append([(b"k", b"1")])
    log.seal()
    log.log.roll(NOW_MS)
    assert log.plan().end_offset == 1


def test_a_log_is_compacted_when_more_than_the_given_share_is_dirty() -> None:
    log = CompactedLog(replace(BIG, min_cleanable_dirty_ratio=0.5))
    for n in range(4):
        log.append([(b"k%d" % n, b"x" * 100)])
        log.seal()
    log.compact()
    log.append([(b"k9", b"x" * 100)])
    log.seal()
    assert plan_of(log) is None  # a fifth of it
    for n in range(4):
        log.append([(b"k%d" % n, b"x" * 100)])
    log.seal()
    assert log.plan().first_dirty_offset == 7


def test_max_compaction_lag_overrules_the_ratio() -> None:
    config = replace(BIG, min_cleanable_dirty_ratio=0.99, max_compaction_lag_ms=5000)
    log = CompactedLog(config)
    log.append([(b"k", b"x" * 1000)])
    log.seal()
    log.compact()
    log.append([(b"k", b"y")])
    log.seal()
    log.now_ms += 5000
    assert plan_of(log) is None
    log.now_ms += 1
    assert plan_of(log) is not None


def test_max_compaction_lag_is_known_after_a_restart() -> None:
    log = CompactedLog(replace(BIG, min_cleanable_dirty_ratio=0.99, max_compaction_lag_ms=5000))
    log.append([(b"k", b"x" * 1000)])
    log.seal()
    log.compact()
    log.append([(b"k", b"y")])
    log.seal()
    cleaned = log.log.cleaned_offset
    log.log.close()
    log.open()
    log.log.cleaned_offset = cleaned
    log.now_ms += 5001
    assert plan_of(log) is not None


def test_records_younger_than_min_compaction_lag_stay() -> None:
    log = CompactedLog(replace(BIG, min_compaction_lag_ms=1000))
    log.append([(b"k", b"1")])
    log.seal()
    log.now_ms += 600
    log.append([(b"k", b"2")])
    log.seal()
    assert plan_of(log) is None
    log.now_ms += 400
    assert log.plan().end_offset == 1
    log.now_ms += 600
    assert log.plan().end_offset == 3


def test_nothing_beyond_an_open_transaction_is_touched() -> None:
    log = CompactedLog(BIG)
    log.append([(b"k", b"1")])
    log.seal()
    log.append([(b"k", b"2")], producer=(7, 0, 0), transactional=True)
    log.seal()
    log.seal()
    assert log.plan().end_offset == 1
    log.store(control.marker(control.COMMIT, 7, 0, 0, NOW_MS, 0))
    assert log.plan().end_offset > 2


def test_neighbours_become_one_segment_as_long_as_they_fit() -> None:
    log = CompactedLog(BIG)
    for n in range(6):
        log.append([(b"k%d" % n, b"x" * 200)])
        log.seal()
    size = log.log.segments[1].size
    log.log.config = replace(BIG, segment_bytes=3 * size)
    groups = log.plan().groups
    assert [len(group) for group in groups] == [3, 3]
    assert all(sum(source.size for source in group) <= 3 * size for group in groups)


def test_a_group_does_not_outgrow_relative_offsets() -> None:
    log = CompactedLog(BIG)
    log.append([(b"a", b"1")])
    log.seal()
    log.log.next_offset = log.log.segments[-1].next_offset = 2**31 - 1
    for _ in range(3):
        log.seal()
    groups = log.plan().groups
    assert [len(group) for group in groups] == [3, 1]
    assert groups[0][-1].next_offset - 1 - groups[0][0].base_offset == 2**31 - 1


def test_a_group_does_not_outgrow_its_index() -> None:
    log = CompactedLog(replace(BIG, index_interval_bytes=1))
    for n in range(4):
        log.append([(b"k%d" % n, b"x" * 200)])
        log.seal()
    log.log.config = replace(log.config, segment_index_bytes=2 * 12 * log.log.segments[1].size)
    assert [len(group) for group in log.plan().groups] == [2, 2]


def test_segments_before_the_start_are_left_to_retention() -> None:
    log = CompactedLog(BIG)
    for n in range(3):
        log.append([(b"k", b"%d" % n)])
        log.seal()
    log.log.delete_before(2)
    assert [source.base_offset for source in log.plan().sources] == [1, 3]
    assert log.plan().first_dirty_offset == 2


def test_a_checkpoint_beyond_the_end_counts_for_nothing() -> None:
    log = CompactedLog(BIG)
    log.append([(b"k", b"1")])
    log.seal()
    log.log.cleaned_offset = 100
    assert log.plan().first_dirty_offset == 0


def test_a_plan_names_the_producers_whose_last_batch_it_may_meet() -> None:
    log = CompactedLog(BIG)
    log.append([(b"k", b"1")], producer=(1, 0, 0))
    log.append([(b"k", b"2"), (b"k", b"3")], producer=(2, 5, 0))
    log.seal()
    log.append([(b"k", b"4")], producer=(1, 0, 1))
    assert log.plan().producers == {2: LastOfProducer(2, 5)}


def test_a_plan_survives_the_way_to_another_process() -> None:
    log = CompactedLog(BIG)
    log.append([(b"k", b"1")], producer=(1, 0, 0))
    log.seal()
    for plan in (log.plan(), compaction.plan(log.log, NOW_MS, bytes_per_second=1.5)):
        assert plan is not None
        assert Plan.from_json(plan.to_json()) == plan
