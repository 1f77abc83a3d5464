"""A partition log on a faulty disk, with the model beside it: what can happen, and what must hold.

Each method `do_…` is one kind of step; `plan` strings them together. A step takes its own dice, so
that a plan from which steps were removed does the same in those that are left. The world plays the
part of the broker: it takes, runs and finishes commits, reopens after a failure, and checkpoints.
"""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random

import pytest

from headwater.log import compaction, retention
from headwater.log.config import LogConfig
from headwater.log.partition import Commit, PartitionLog, StorageFailed, SyncFailed
from headwater.log.producers import OutOfOrderSequence
from headwater.log.segment import SUFFIXES
from headwater.log.store import CLEAN, LogStore
from headwater.record import batch as batches
from headwater.record import records
from headwater.record.records import Record
from headwater.testing.clock import ManualClock
from headwater.testing.faulty_disk import FaultyDisk, PowerCut

from .model import Model

ROOT = Path("/data")
TOPIC = "simulated"
PRODUCERS = 3


def any_config(dice: Random, durability: str, compact: bool) -> LogConfig:
    """Small enough that forty steps roll, index and delete."""
    by_time = dice.random() < 0.5
    return LogConfig(
        compact=compact,
        delete=not compact or dice.random() < 0.3,
        delete_retention_ms=dice.choice((0, 50_000)),
        min_cleanable_dirty_ratio=dice.choice((0.0, 0.5)),
        segment_bytes=dice.choice((400, 900, 3000, 20_000)),
        segment_ms=dice.choice((50_000, 10**9)),
        index_interval_bytes=dice.choice((1, 200, 4096)),
        retention_bytes=-1 if by_time else dice.choice((500, 2000)),
        retention_ms=dice.choice((20_000, 100_000)) if by_time else -1,
        durability=durability,
    )


class World:
    """Everything that one run is about."""

    def __init__(self, seed: int, durability: str, *, compact: bool = False) -> None:
        dice = Random(seed)
        self.config = any_config(dice, durability, compact)
        self.clock = ManualClock()
        self.disk = FaultyDisk(dice.getrandbits(32), sector_bytes=dice.choice((1, 1, 16, 512)))
        self.model = Model()
        self.taken: Commit | None = None
        self.commit: Commit | None = None
        self.fenced = False
        self.store: LogStore
        self.log: PartitionLog
        self.open()

    # ---- starting and ending -------------------------------------------------------------------

    def open(self) -> None:
        self.store = LogStore(self.disk, ROOT, self.clock.now_ms)
        self.store.open(1)
        self.store.begin()
        self.log = self.store.open_log(TOPIC, 0, self.config)
        self.taken = self.commit = None
        self.fenced = False

    def restart(self, dice: Random, *, power: bool) -> None:
        """Come back after the end, and see what is left; it may end again on the way."""
        may_lose = False
        while True:
            may_lose |= power and self.config.durability == "os"
            self.disk = self.disk.crash() if power else self.disk.kill()
            if dice.random() < 0.3:
                self.disk.stop_after(dice.randint(1, 12))
            try:
                self.open()
                break
            except PowerCut:
                power = dice.random() < 0.7
        self.disk.heal()
        self.check_reopened(may_lose=may_lose)

    def after_power_cut(self, dice: Random) -> None:
        """The disk stopped in the middle of a step: taken as a power cut, or as a kill."""
        self.restart(dice, power=dice.random() < 0.7)

    def after_failure(self, step: str, dice: Random) -> None:
        """A file beside the segments could not be written. The broker logs it and goes on; a stop
        that failed was no clean one."""
        if step == "close":
            self.restart(dice, power=False)

    # ---- steps ---------------------------------------------------------------------------------

    def do_append(self, dice: Random) -> None:
        if self.fenced:
            return
        data, found = self.any_batch(dice)
        header = batches.read_header(data)
        assert self.log.check_producer(header) is None, "a new batch taken for a retry"
        offset = self.log.stage(data, header, self.clock.now_ms())
        assert offset == self.model.next_offset, "offsets do not follow one another"
        self.model.staged(data, offset, found)

    def any_batch(self, dice: Random) -> tuple[bytes, tuple[Record, ...]]:
        now = self.clock.now_ms()
        found = tuple(
            Record(i, now + dice.randint(-30_000, 5_000), b"k%d" % dice.randint(0, 9), value)
            for i, value in enumerate(
                None if dice.random() < 0.1 else dice.randbytes(dice.choice((0, 5, 80)))
                for _ in range(dice.choice((1, 1, 2, 7)))
            )
        )
        codec = dice.choice((0, 0, 0, 1, 2, 3, 4))
        number = dice.randint(-1, PRODUCERS - 1)
        if number < 0:
            return records.build(found, codec=codec), found
        producer_id = self.model.first_producer_id + number
        last = self.model.last_of_producer(producer_id)
        sequence = last.header.last_sequence + 1 if last else 0
        return (
            records.build(
                found,
                codec=codec,
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=sequence,
            ),
            found,
        )

    def do_commit(self, dice: Random) -> None:
        self.do_write(dice)
        self.do_finish(dice)
        self.do_write(dice)
        self.do_finish(dice)

    def do_write(self, dice: Random) -> None:
        """Bring everything staged to disk, but do not acknowledge it yet."""
        self.do_take(dice)
        self.do_run(dice)

    def do_take(self, dice: Random) -> None:
        """Gather a commit; what is done before it runs happens while it waits for its thread."""
        if self.fenced or self.taken is not None or self.commit is not None:
            return
        self.taken = self.log.take()
        self.model.taken_end = max(self.model.taken_end, self.model.next_offset)

    def do_run(self, dice: Random) -> None:
        commit, self.taken = self.taken, None
        if commit is None:
            return
        try:
            commit.run()
        except SyncFailed:
            self.fenced = True
            self.log.abandon()
        except (OSError, StorageFailed):
            self.go_back()
        else:
            self.commit = commit

    def do_finish(self, dice: Random) -> None:
        """The commit has run: acknowledge it."""
        if self.commit is not None:
            self.log.finish(self.commit)
            self.model.durable_end = max(self.model.durable_end, self.commit.end_offset)
            self.commit = None

    def go_back(self) -> None:
        """As the broker does when a write failed: what was not acknowledged is refused for good."""
        failed = self.log
        try:
            self.log = self.store.reopen_log(TOPIC, 0)
        except OSError:
            self.fenced = True
            return
        assert self.log.next_offset == failed.durable_offset, "refused records came back"
        self.check_reopened(may_lose=False)

    def do_roll(self, dice: Random) -> None:
        if not self.fenced and self.log.active.size:
            self.log.roll(self.clock.now_ms())

    def do_wait(self, dice: Random) -> None:
        self.clock.advance(dice.choice((10, 1_000, 60_000, 200_000)))

    def do_retain(self, dice: Random) -> None:
        if self.fenced:
            return
        log, now = self.log, self.clock.now_ms()
        before, seen = log.start_offset, self.read_all(dice)
        count = retention.expired(log, now)
        if count == len(log.segments):
            log.roll(now)
        dropped = log.drop_front(retention.may_go(log, count))
        self.check_retained([record for record in seen if record.offset >= before])
        self.model.start = log.start_offset
        self.store.checkpoint_starts()
        self.model.durable_start = log.start_offset
        for segment in dropped:
            segment.close()
            for suffix in SUFFIXES:
                self.disk.remove(segment.path(suffix))

    def check_retained(self, seen: list[Record]) -> None:
        gone = [record for record in seen if record.offset < self.log.start_offset]
        if gone and self.config.retention_ms >= 0:
            oldest_kept = self.clock.now_ms() - self.config.retention_ms
            young = [record for record in gone if record.timestamp >= oldest_kept]
            assert not young, f"retention by time deleted {young[0]}"
        elif gone:
            assert self.log.size() >= self.config.retention_bytes, "retention deleted too much"

    def do_compact(self, dice: Random) -> None:
        if self.fenced:
            return
        log = self.log
        plan = compaction.plan(log, self.clock.now_ms())
        if plan is None:
            return
        result = compaction.compact(self.disk, log.directory, plan)
        self.store.sync_lazy()
        self.store.checkpoint()  # as the broker does: gaps must not lie above the recovery point
        self.model.durable_start = log.start_offset
        self.model.cleaned_end = max(self.model.cleaned_end, result.cleaned_offset)
        for segment in compaction.apply(log, plan, result) or ():
            segment.close()
        self.check_readers(dice)

    def do_delete(self, dice: Random) -> None:
        if self.fenced:
            return
        self.log.delete_before(dice.randint(self.log.start_offset, self.log.durable_offset))
        self.model.start = self.log.start_offset
        if dice.random() < 0.7:
            self.store.checkpoint_starts()
            self.model.durable_start = self.log.start_offset

    def do_checkpoint(self, dice: Random) -> None:
        if not self.fenced:
            if dice.random() < 0.5:
                self.store.sync_lazy()
            self.store.checkpoint()
            self.model.durable_start = self.log.start_offset

    def do_read(self, dice: Random) -> None:
        if not self.fenced:
            self.check_readers(dice)

    def do_retry(self, dice: Random) -> None:
        if not self.fenced:
            self.check_producers()

    def do_kill(self, dice: Random) -> None:
        self.restart(dice, power=False)

    def do_cut(self, dice: Random) -> None:
        self.restart(dice, power=True)

    def do_close(self, dice: Random) -> None:
        """A clean stop, and a start that must find all of it."""
        self.do_commit(dice)
        if self.fenced:
            return
        self.model.taken_end = max(self.model.taken_end, self.model.next_offset)
        self.store.close()
        if CLEAN not in self.disk.list(ROOT):  # the disk refused something: no clean stop
            self.restart(dice, power=False)
            return
        self.model.durable_end = self.model.next_offset
        self.model.durable_start = self.model.start
        self.disk = self.disk.crash() if dice.random() < 0.5 else self.disk.kill()
        self.open()
        assert self.store.reports[TOPIC, 0].scanned_bytes == 0, "recovery after a clean stop"
        assert self.log.next_offset == self.model.next_offset
        self.check_reopened(may_lose=False)

    def do_stop_soon(self, dice: Random) -> None:
        self.disk.stop_after(dice.randint(1, 15))

    def do_fail_write(self, dice: Random) -> None:
        self.disk.fail("write", dice.choice((errno.ENOSPC, errno.EIO)), after=dice.randint(0, 3))

    def do_fail_sync(self, dice: Random) -> None:
        self.disk.fail("sync", errno.EIO, after=dice.randint(0, 3))

    def do_fill_disk(self, dice: Random) -> None:
        """No space for a while: files can be made, but nothing written."""
        self.disk.fail("write", errno.ENOSPC, times=dice.randint(1, 4))

    # ---- what must hold ------------------------------------------------------------------------

    def check_reopened(self, *, may_lose: bool) -> None:
        log, model = self.log, self.model
        model.reopened(log.start_offset, log.next_offset, may_lose=may_lose)
        assert log.durable_offset == log.next_offset
        self.check_readers(Random(log.next_offset))
        self.check_producers()

    def check_readers(self, dice: Random) -> None:
        log, model = self.log, self.model
        assert log.durable_offset == model.durable_end, "something is visible that is not durable"
        found = self.read_all(dice)
        if self.config.compact:
            model.check_compacted(found)
        else:
            self.check_reader(log.start_offset, dice.choice((1, 300, 10**6)), model.durable_end)
        if log.durable_offset > log.start_offset:
            offset = dice.randint(log.start_offset, log.durable_offset)
            upper = dice.randint(log.start_offset, log.durable_offset)
            if not self.config.compact:
                self.check_reader(offset, dice.choice((1, 500)), upper)
            self.check_times(dice, [record for record in found if record.offset >= model.start])

    def read_all(self, dice: Random) -> list[Record]:
        """Every record from the start to the durable offset, as a client would fetch them."""
        found: list[Record] = []
        offset, size_max = self.log.start_offset, dice.choice((1, 300, 10**6))
        while offset < self.log.durable_offset:
            data = bytes(self.log.read(offset, size_max) or b"")
            if not data:
                break
            for position, header in batches.scan(data):
                assert offset <= header.last_offset < self.log.durable_offset, "out of order"
                found += records.decode(data, position)
                offset = header.next_offset
        return found

    def check_reader(self, offset: int, size_max: int, upper: int) -> None:
        """The very bytes that were stored, batch after batch."""
        expected = self.model.visible(offset, upper)
        if upper < self.model.durable_end:  # a batch that reaches beyond the bound is not given
            expected = [batch for batch in expected if batch.next_offset <= upper]
        epoch = 0
        for batch in expected:
            data = self.log.read(offset, size_max, upper=upper)
            assert data is not None and len(data), f"no batch at offset {offset}"
            found = bytes(data)[: len(batch.data)]
            assert batch.is_stored_as(found), f"other bytes than were stored at offset {offset}"
            header = batches.read_header(found)
            assert epoch <= header.leader_epoch <= self.log.epoch, "leader epochs go back"
            offset, epoch = batch.next_offset, header.leader_epoch
        if offset < upper and not expected:
            return
        data = self.log.read(max(offset, min(upper, self.log.next_offset)), size_max, upper=upper)
        assert data is not None and not len(data), "records that were never stored"

    def check_times(self, dice: Random, found: list[Record]) -> None:
        if not found:
            return
        chosen = dice.choice(found).timestamp
        for timestamp in (chosen, chosen + 1, 0):
            first = next(((r.timestamp, r.offset) for r in found if r.timestamp >= timestamp), None)
            assert self.log.find_time(timestamp) == first, f"find_time({timestamp})"
        latest = max(record.timestamp for record in found)
        first = next((r.timestamp, r.offset) for r in found if r.timestamp == latest)
        answer = self.log.find_max_timestamp()
        assert answer == first, f"find_max_timestamp: {answer} instead of {first}"

    def check_producers(self) -> None:
        for number in range(PRODUCERS):
            producer_id = self.model.first_producer_id + number
            last = self.model.last_of_producer(producer_id)
            if last is None or last.base_offset < self.log.start_offset:
                continue
            stored = self.log.check_producer(last.header)
            assert stored is not None, f"a retry of producer {producer_id} is not recognised"
            assert stored.base_offset == last.base_offset
            skipped = last.header._replace(base_sequence=last.header.last_sequence + 7)
            with pytest.raises(OutOfOrderSequence):
                self.log.check_producer(skipped)
