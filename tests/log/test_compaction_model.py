"""Any appends, any compactions, any restarts: the log stays equal to a model that never forgets."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.log import compaction
from headwater.log.latest import KEY_BYTES_MAX
from headwater.log.survivors import LastOfProducer
from headwater.record import batch as batches
from headwater.record import control, records
from headwater.record.records import Record

from .compacted import CONFIG, CompactedLog

pytestmark = pytest.mark.timeout(1200)  # make soak tries two thousand examples of each

RETENTION_MS = CONFIG.delete_retention_ms

keys = st.integers(0, 12).map(lambda n: b"key-%d" % n * (n + 1))
values = st.none() | st.binary(max_size=40)
stamps = st.integers(-1000, 1000)
headers = st.just(()) | st.tuples(st.tuples(st.sampled_from(["h", "é"]), st.none() | st.binary()))


@dataclass(frozen=True)
class Batch:
    """What one append brings."""

    contents: list[tuple[bytes, bytes | None, int, tuple[tuple[str, bytes | None], ...]]]
    codec: int
    producer: int

    @property
    def is_transactional(self) -> bool:
        return self.producer >= 200


@dataclass(frozen=True)
class End:
    """The end of a producer's transaction."""

    producer: int
    kind: int


@dataclass(frozen=True)
class Across:
    """A transaction whose marker lies in the segment after its data, compacted right then."""

    batch: Batch
    end: End


batch_kinds = st.builds(
    Batch,
    st.lists(st.tuples(keys, values, stamps, headers), min_size=1, max_size=12),
    st.integers(0, 4),
    st.sampled_from([-1, -1, 100, 101, 200, 201]),
)
ends = st.builds(End, st.sampled_from([200, 201]), st.sampled_from([control.ABORT, control.COMMIT]))
steps = st.one_of(
    batch_kinds,
    batch_kinds,
    batch_kinds,
    ends,
    st.builds(
        lambda batch, end: Across(replace(batch, producer=end.producer), end), batch_kinds, ends
    ),
    st.just("seal"),
    st.just("restart"),
    st.integers(0, 1500),  # so many ms go by
    st.sampled_from([b"compact", b"compact little", b"compact what is sealed"]),
)


@dataclass
class Model:
    """The log under test, and what must be true of it."""

    log: CompactedLog
    sequences: dict[int, int] = field(default_factory=dict)
    first_cleaned_ms: dict[int, int] = field(default_factory=dict)
    may_be_gone: set[int] = field(default_factory=set)
    """Offsets of tombstones that some compaction had the right to drop."""
    open: dict[int, int] = field(default_factory=dict)
    """Producer → first offset of the transaction that it has open."""
    theirs: dict[int, list[int]] = field(default_factory=dict)
    """Producer → offsets of the records in its open transaction."""
    aborted: set[int] = field(default_factory=set)

    def stable(self) -> int:
        return min(self.open.values(), default=self.log.log.durable_offset)

    def data(self) -> list[Record]:
        """Every record but markers, as a reader of uncommitted data finds them."""
        found = [data for header, data in self.log.batches() if not header.is_control]
        return [record for data in found for record in records.decode(data)]

    def committed(self) -> list[Record]:
        """What a reader of committed data makes of the batches and of the list of aborted ones."""
        stable = self.log.log.last_stable_offset()
        known = self.log.log.aborted_between(0, stable)
        return [
            record
            for header, data in self.log.batches()
            if header.last_offset < stable and not header.is_control
            if not (
                header.is_transactional
                and any(
                    each.producer_id == header.producer_id
                    and each.first_offset <= header.base_offset < each.last_offset
                    for each in known
                )
            )
            for record in records.decode(data)
        ]

    def end(self, end: End) -> None:
        self.log.store(control.marker(end.kind, end.producer, 0, 0, self.log.now_ms, 0))
        del self.log.written[self.log.log.next_offset - 1]
        offsets = self.theirs.pop(end.producer, [])
        if end.kind == control.ABORT:
            self.aborted.update(offsets)
        self.open.pop(end.producer, None)

    def append(self, batch: Batch) -> None:
        found = [
            Record(n, self.log.now_ms + stamp, key, value, headers)
            for n, (key, value, stamp, headers) in enumerate(batch.contents)
        ]
        sequence = -1
        if batch.producer >= 0:
            sequence = self.sequences.get(batch.producer, 0)
            self.sequences[batch.producer] = sequence + len(found)
        if batch.is_transactional:
            first = self.log.log.next_offset
            self.open.setdefault(batch.producer, first)
            offsets = range(first, first + len(found))
            self.theirs.setdefault(batch.producer, []).extend(offsets)
        self.log.store(
            records.build(
                found,
                codec=batch.codec,
                producer_id=batch.producer,
                producer_epoch=min(batch.producer, 0),
                base_sequence=sequence,
                transactional=batch.is_transactional,
            )
        )

    def compact(self, key_bytes_max: int = KEY_BYTES_MAX, *, seal: bool = True) -> None:
        log = self.log
        for _ in range(seal and 3 - min(len(log.log.segments), 2)):
            log.seal()
        before = self.data()
        if compaction.plan(log.log, log.now_ms, key_bytes_max=key_bytes_max) is None:
            assert self.open or not seal, (
                "only an open transaction keeps a log from being compacted"
            )
            return
        ends = (log.log.start_offset, log.log.next_offset, log.log.durable_offset)
        end = log.compact(key_bytes_max=key_bytes_max).cleaned_offset
        assert log.log.cleaned_offset == end <= self.stable()
        assert ends == (log.log.start_offset, log.log.next_offset, log.log.durable_offset)
        newest = {
            record.key: record.offset
            for record in before
            if record.offset < end and record.offset not in self.aborted
        }
        for record in before:
            if record.value is None and record.offset < end:
                first = self.first_cleaned_ms.setdefault(record.offset, log.now_ms)
                if log.now_ms >= first + RETENTION_MS:
                    self.may_be_gone.add(record.offset)
        expected = [r for r in before if r.offset >= end or newest.get(r.key) == r.offset]
        must = [r for r in expected if r.offset not in self.may_be_gone]
        after = self.data()
        assert [r for r in after if r.offset not in self.may_be_gone] == must
        assert set(after) <= set(expected)

    def check(self) -> None:
        log = self.log
        found = self.data()
        offsets = [record.offset for record in found]
        assert offsets == sorted(set(offsets))
        assert all(record == log.written[record.offset] for record in found)
        assert log.log.last_stable_offset() == self.stable()
        assert dict(log.log.producers.open_transactions) == self.open
        written = [
            record
            for offset, record in sorted(log.written.items())
            if offset < self.stable() and offset not in self.aborted
        ]
        committed = self.committed()
        assert not self.aborted.intersection(record.offset for record in committed)
        assert _table(committed) == _table(written)
        newest = {record.key: record.offset for record in written}
        assert set(newest.values()) - self.may_be_gone <= set(offsets)
        for below, above in zip(log.log.segments, log.log.segments[1:], strict=False):
            assert below.next_offset == above.base_offset
        self._check_producers()

    def _check_producers(self) -> None:
        for producer, sequence in self.sequences.items():
            stored = self.log.log.producers.by_id[producer].stored[-1]
            assert stored.last_sequence == sequence - 1
            assert any(
                header.producer_id == producer and header.last_offset == stored.last_offset
                for header in self.log.headers()
            )


def _table(found: list[Record]) -> dict[bytes | None, bytes]:
    newest = {record.key: record.value for record in found}
    return {key: value for key, value in newest.items() if value is not None}


@given(
    st.lists(steps, min_size=5, max_size=40), st.sampled_from([200, 900, 1 << 20]), st.booleans()
)
def test_a_compacted_log_equals_the_log_that_was_written(
    script: list[Batch | End | Across | str | int | bytes],
    segment_bytes: int,
    snapshots_survive: bool,
) -> None:
    model = Model(CompactedLog(replace(CONFIG, segment_bytes=segment_bytes)))
    both = [End(200, control.ABORT), End(201, control.COMMIT)]
    for step in [*script, b"compact", *both, b"compact", "restart", 2000, b"compact", "restart"]:
        log = model.log
        match step:
            case Batch():
                model.append(step)
            case End():
                model.end(step)
            case Across():
                model.append(step.batch)
                log.seal()
                model.end(step.end)
                model.compact(seal=False)
            case int():
                log.now_ms += step
            case "seal":
                log.seal()
            case "restart":
                cleaned = log.log.cleaned_offset
                log.log.close()
                if not snapshots_survive:
                    for name in log.names():
                        if name.endswith(".snapshot"):
                            log.files.remove(log.folder / name)
                log.open()
                log.log.cleaned_offset = cleaned
            case bytes():
                size = 600 if step == b"compact little" else KEY_BYTES_MAX
                model.compact(size, seal=step != b"compact what is sealed")
        model.check()


@given(st.lists(batch_kinds, min_size=1, max_size=10), st.data())
def test_every_offset_can_be_read_from_after_compaction(
    script: list[Batch], data: st.DataObject
) -> None:
    model = Model(CompactedLog(replace(CONFIG, segment_bytes=500)))
    for batch in script:
        model.append(batch)
    model.end(End(200, control.COMMIT))
    model.end(End(201, control.ABORT))
    model.compact()
    offset = data.draw(st.integers(0, model.log.log.next_offset - 1))
    found = model.log.log.read(offset, data.draw(st.integers(1, 500)))
    first = batches.read_header(bytes(found or b""))
    following = [header for header in model.log.headers() if header.last_offset >= offset]
    assert first.base_offset in [header.base_offset for header in following]
    passed_over = [header for header in following if header.base_offset < first.base_offset]
    assert not any(header.record_count for header in passed_over)


@given(st.lists(batch_kinds, min_size=1, max_size=6))
def test_a_second_compaction_in_the_same_instant_changes_nothing(script: list[Batch]) -> None:
    model = Model(CompactedLog(CONFIG))
    for batch in script:
        model.append(batch)
    model.end(End(200, control.COMMIT))
    model.end(End(201, control.ABORT))
    model.compact()
    before = [data for header, data in model.log.batches() if header.record_count]
    model.log.log.cleaned_offset = 0
    model.log.compact()
    after = [data for header, data in model.log.batches() if header.record_count]
    assert after == before


def test_the_model_knows_what_a_producer_left() -> None:
    model = Model(CompactedLog(CONFIG))
    model.append(Batch([(b"a", b"1", 0, ())], 0, 100))
    model.log.seal()
    assert model.log.plan().producers == {100: LastOfProducer(0, 0)}
