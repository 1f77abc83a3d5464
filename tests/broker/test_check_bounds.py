"""However a batch is made, checking it is bounded work: never long in the event loop, never for ever."""

from __future__ import annotations

import asyncio
import threading
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from headwater.broker import validation
from headwater.broker.memory import MemoryBudget
from headwater.broker.schema_check import SchemaCheck, SubjectIds
from headwater.broker.validation import Bounds, Candidate, Validation, check_all
from headwater.log.append import RECORD_ERRORS_MAX, BatchTooLarge, KeyMissing, prepare
from headwater.log.config import LogConfig
from headwater.record import batch as batches
from headwater.record import codecs, varint
from headwater.record.errors import PayloadTooLarge, RecordError
from headwater.record.records import Record, build
from tests.broker.serving import Serving, serving
from tests.compat.asking import produce
from tests.compat.wire import ErrorCode

MEGABYTE = 1024**2
NOW_MS = int(time.time() * 1000)
CONFIG = LogConfig()


@pytest.fixture
def broker(data: Path) -> Iterator[Serving]:
    with serving(data) as running:
        running.create("t")
        yield running


@pytest.fixture
def checks() -> Iterator[Validation]:
    made = Validation(MemoryBudget(128 * MEGABYTE))
    yield made
    made.close()


def packed(payload: bytes, codec: int = codecs.NONE, count: int = 1) -> bytes:
    """A batch around any payload, stored as it is given."""
    header = batches.read_header(build([Record(0, NOW_MS, None, b"")]))
    claims = header._replace(
        attributes=codec, record_count=count, last_offset_delta=count - 1, max_timestamp=NOW_MS
    )
    return batches.pack(claims, payload)


def with_headers(count: int) -> bytes:
    """One record that is nothing but headers without a name and a value: two bytes each."""
    body = b"\0\0\0\1\1" + varint.encode(count) + b"\0\1" * count
    return varint.encode(len(body)) + body


def candidate(data: bytes, **changes: object) -> Candidate:
    return Candidate(data, replace(CONFIG, **changes), NOW_MS)  # type: ignore[arg-type]


def test_many_headers_are_not_counted_in_the_event_loop(checks: Validation) -> None:
    few, many = packed(with_headers(1000)), packed(with_headers(400_000))
    assert checks.at_once([candidate(few)]) is not None
    assert checks.at_once([candidate(many)]) is None
    assert checks.at_once([candidate(few)] * 100) is None
    (outcome,) = check_all([candidate(many)], Bounds.of_request())
    assert not isinstance(outcome, RecordError)


def test_headers_of_many_records_count_together(checks: Validation) -> None:
    records = [
        Record(n, NOW_MS, None, b"v" * (n % 7), tuple((f"h{n}", b"") for n in range(40)))
        for n in range(2000)
    ]
    assert checks.at_once([candidate(build(records))]) is None


def test_a_batch_with_more_headers_than_anybody_means_well_by_is_refused(broker: Serving) -> None:
    payload = with_headers(validation.ELEMENTS_MAX + 1)
    with broker.wire() as wire:
        row = produce(wire, "t", packed(codecs.compress(codecs.ZSTD, payload), codecs.ZSTD))
        assert row.error_code is ErrorCode.message_too_large, row


def test_a_batch_of_more_records_than_anybody_means_well_by_is_not_read() -> None:
    payload = codecs.compress(codecs.ZSTD, Random(1).randbytes(20_000))
    data = packed(payload, codecs.ZSTD, validation.ELEMENTS_MAX + 1)
    (outcome,) = check_all([candidate(data)], Bounds.of_request())
    assert isinstance(outcome, PayloadTooLarge)


@pytest.mark.parametrize("payload", [with_headers(2 * MEGABYTE), bytes(4 * MEGABYTE)])
def test_a_batch_that_is_too_large_is_refused_before_it_is_read(payload: bytes) -> None:
    for codec in range(5):
        with pytest.raises(BatchTooLarge):
            prepare(packed(payload, codec), CONFIG, NOW_MS)


def test_large_batches_and_many_of_them_are_checked_in_threads(checks: Validation) -> None:
    large = build([Record(0, NOW_MS, None, bytes(900_000))])
    small = build([Record(0, NOW_MS, None, b"v")])
    assert checks.at_once([candidate(large)]) is not None
    assert checks.at_once([candidate(large)] * 10) is None
    assert checks.at_once([candidate(small)] * 10) is not None
    assert checks.at_once([candidate(small)] * 5000) is None


@pytest.mark.parametrize("name", ["gzip", "zstd", "lz4", "snappy"])
def test_what_the_topic_wants_compressed_is_compressed_in_threads(
    checks: Validation, name: str
) -> None:
    large = build([Record(0, NOW_MS, None, bytes(900_000))])
    small = build([Record(0, NOW_MS, None, bytes(900))])
    assert checks.at_once([candidate(large, compression_type=name)]) is None
    assert checks.at_once([candidate(small, compression_type=name)]) is not None


def test_gzip_data_of_very_many_members_takes_no_longer_than_that_of_one() -> None:
    """A copy of all that follows for each member would take minutes."""
    member = zlib.compress(b"", 9, 31)
    payload = build([Record(0, NOW_MS, None, b"v")])[batches.HEADER_BYTES :]
    stored = member * (3 * MEGABYTE // len(member)) + zlib.compress(payload, 9, 31)
    with pytest.raises(PayloadTooLarge):
        codecs.decompress(codecs.GZIP, stored, len(payload) - 1)
    assert codecs.decompress(codecs.GZIP, stored, len(payload)) == payload


def test_a_refusal_does_not_hold_what_was_decompressed() -> None:
    honest = build([Record(0, NOW_MS, None, bytes(3 * MEGABYTE))])[batches.HEADER_BYTES :]
    poison = packed(codecs.compress(codecs.ZSTD, honest + b"x"), codecs.ZSTD)
    (outcome,) = check_all([candidate(poison)], Bounds.of_request())
    assert isinstance(outcome, RecordError)
    assert outcome.__traceback__ is None
    assert outcome.__cause__ is None
    assert outcome.__context__ is None


def test_batches_that_grow_because_the_topic_wants_them_so_share_a_bound() -> None:
    """They are all held until all of them are checked."""
    small = build([Record(0, NOW_MS, None, bytes(900_000))], codec=codecs.ZSTD)
    assert len(small) < 1000
    found = check_all(
        [candidate(small, compression_type="uncompressed")] * 100, Bounds.of_request()
    )
    stored = sum(len(each[0]) for each in found if not isinstance(each, RecordError))
    assert MEGABYTE < stored <= validation.GROWN_BYTES_MAX
    assert isinstance(found[-1], PayloadTooLarge)


# ---- many at a time ----------------------------------------------------------------------------------


class Waiter:
    """A connection that the budget knows."""

    def room(self) -> None:
        """It only asks whether there is some."""

    def drop_if_stalled(self, now: float) -> None:
        """It holds nothing."""


@pytest.fixture
def held_up(checks: Validation) -> Iterator[threading.Event]:
    """No check comes further than to its thread until this is set."""
    release = threading.Event()
    for _ in range(validation.THREADS):
        checks.run(release.wait)
    try:
        yield release
    finally:
        release.set()


async def test_few_bytes_that_become_very_many_leave_memory_to_others(
    held_up: threading.Event, checks: Validation
) -> None:
    payload = codecs.compress(codecs.GZIP, bytes(40 * MEGABYTE))
    bomb, memory = packed(payload, codecs.GZIP), checks._memory
    assert len(bomb) < 50_000
    going = [
        asyncio.ensure_future(checks.check([candidate(bomb)], Bounds.of_request(), "127.0.0.1"))
        for _ in range(6)
    ]
    await asyncio.sleep(0)
    assert memory.used["payloads"] == validation.COPIES * 1000 * len(bomb)
    assert memory.reserve_frame(Waiter(), 100 * 1024)
    assert memory.may_read(Waiter())
    going.pop(3).cancel()
    held_up.set()
    assert all(isinstance(each[0], RecordError) for each in await asyncio.gather(*going))
    assert not memory.used["payloads"]


async def test_addresses_take_turns_at_being_checked(
    held_up: threading.Event, checks: Validation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validation, "THREADS", 1)
    batch, ended = candidate(build([Record(0, NOW_MS, None, b"v")])), list[str]()

    async def check(address: str) -> None:
        await checks.check([batch], Bounds.of_request(), address)
        ended.append(address)

    going = [asyncio.ensure_future(check(each)) for each in ["a"] * 5 + ["b", "c"]]
    await asyncio.sleep(0)
    held_up.set()
    await asyncio.gather(*going)
    assert ended == ["a", "a", "b", "c", "a", "a", "a"]


# ---- what is made of the records of a batch ---------------------------------------------------------


MANY = 100_000
RECORD_BYTES = 60
"""Each has about ten, which are held a few times over; the smallest tuple alone is as large as this."""


def tiny(count: int, key: bytes | None, value: bytes | None) -> bytes:
    """So many records of a few bytes each, which compress to next to nothing."""
    made = build([Record(n, NOW_MS, key, value) for n in range(count)], codec=codecs.ZSTD)
    assert len(made) < count
    return made


def peak_of(work: Callable[[], object]) -> int:
    """Bytes that Python's objects took at most, without what is loaded once and stays."""
    work()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def refused(data: bytes, config: LogConfig) -> None:
    with pytest.raises(KeyMissing):
        prepare(data, config, NOW_MS)


@pytest.mark.parametrize("key", [b"k", None], ids=["keys", "no-keys"])
def test_checking_a_batch_makes_no_object_of_each_of_its_records(key: bytes | None) -> None:
    """A million of them fit into a request of one megabyte, and two requests are checked at once."""
    data, compacted = tiny(MANY, key, b""), replace(CONFIG, compact=True)
    check = refused if key is None else lambda data, config: prepare(data, config, NOW_MS)
    assert peak_of(lambda: check(data, compacted)) < MANY * RECORD_BYTES


def test_nor_does_looking_for_the_ids_of_schemas() -> None:
    data = tiny(MANY, None, b"\0\0\0\0\7")
    ids = SubjectIds()
    ids._versions["t-value"] = {1: 7}
    check = SchemaCheck(ids, "t-value", None)
    assert peak_of(lambda: check.check(data)) < MANY * RECORD_BYTES


def test_a_batch_of_very_many_records_without_a_key_is_refused_in_a_short_answer(
    broker: Serving,
) -> None:
    broker.create("compacted", cleanup_policy="compact")
    with broker.wire() as wire:
        answer = produce(wire, "compacted", tiny(MANY, None, b""))
        assert answer.error_code is ErrorCode.invalid_record
        named = [each.batch_index for each in answer.record_errors]
        assert named == list(range(RECORD_ERRORS_MAX))
