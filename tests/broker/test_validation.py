"""Batches that take long to check are checked beside the event loop, in order, and within bounds."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headwater.broker import validation
from headwater.record import batch as batches
from headwater.record import codecs
from headwater.record.records import Record, build
from tests.broker.bystander import Bystander
from tests.broker.serving import Serving, delete, serving
from tests.compat.asking import end_offset, fetch, produce, produce_request
from tests.compat.batches import read_batches
from tests.compat.waiting import until
from tests.compat.wire import ErrorCode

MEGABYTE = 1024**2


@pytest.fixture
def broker(data: Path) -> Iterator[Serving]:
    with serving(data) as running:
        running.create("t", 3)
        yield running


def compressed(number: int, codec: int = codecs.ZSTD, size: int = 300_000) -> bytes:
    """A batch of an idempotent producer that is too much to be checked at once."""
    value = b"%d" % number + bytes(size)
    return build(
        [Record(0, 0, None, value)],
        codec=codec,
        producer_id=77,
        producer_epoch=0,
        base_sequence=number,
    )


@contextmanager
def busy_threads(broker: Serving) -> Iterator[threading.Event]:
    """All threads that check have something else to do, until the event is set."""
    release = threading.Event()
    for _ in range(validation.THREADS):
        broker.call(lambda: broker.broker.validation.run(release.wait))
    try:
        yield release
    finally:
        release.set()


def test_others_are_answered_while_a_batch_is_checked_and_its_followers_wait(
    broker: Serving,
) -> None:
    """What comes behind it on its connection is stored behind it, however small it is."""
    small = build([Record(0, 0, None, b"x")], producer_id=77, producer_epoch=0, base_sequence=1)
    with busy_threads(broker) as release, broker.wire() as wire, broker.wire() as other:
        wire.send("produce", 9, **produce_request("t", compressed(0)))
        wire.send("produce", 9, **produce_request("t", small))
        until(lambda: broker.call(lambda: broker.broker.memory.used["payloads"]), "the check")
        assert produce(other, "t", build([Record(0, 0, None, b"y")]), partition=1).base_offset == 0
        assert end_offset(other, "t") == 0
        release.set()
        rows = [wire.receive()[1].responses[0].partition_responses[0] for _ in range(2)]
        assert [row.error_code for row in rows] == [ErrorCode.none] * 2
        assert [row.base_offset for row in rows] == [0, 1]
    assert broker.call(lambda: broker.broker.memory.used["payloads"]) == 0


def test_pipelined_batches_of_one_producer_keep_their_order(broker: Serving) -> None:
    with broker.wire() as wire:
        for number in range(30):
            size = 300_000 if number % 3 else 10  # some are checked at once, some in threads
            request = produce_request("t", compressed(number, 1 + number % 4, size))
            wire.send("produce", 9, **request)
        rows = [wire.receive()[1].responses[0].partition_responses[0] for _ in range(30)]
        assert [row.base_offset for row in rows] == list(range(30))


def test_a_client_that_leaves_meanwhile_harms_nobody(broker: Serving) -> None:
    with busy_threads(broker) as release:
        with broker.wire() as wire:
            wire.send("produce", 9, **produce_request("t", compressed(0)))
            until(lambda: broker.call(lambda: broker.broker.memory.used["payloads"]), "the check")
        until(lambda: not broker.call(lambda: len(broker.broker.connections)), "it to be gone")
        release.set()
        with broker.wire() as wire:
            until(lambda: end_offset(wire, "t") == 1, "what it sent to be stored")
    until(lambda: not broker.call(lambda: broker.broker.memory.held), "nothing to be held")


def test_a_topic_deleted_meanwhile_is_an_error_for_its_batch_only(broker: Serving) -> None:
    broker.create("gone")
    data = [{"index": 0, "records": compressed(0)}]
    topics = [{"name": name, "partition_data": data} for name in ("gone", "t")]
    with busy_threads(broker) as release, broker.wire() as wire, broker.wire() as other:
        wire.send("produce", 9, acks=-1, timeout=5000, topic_data=topics)
        until(lambda: broker.call(lambda: broker.broker.memory.used["payloads"]), "the check")
        other.ask("delete_topics", 5, topic_names=["gone"], timeout=9000)
        release.set()
        gone, kept = (each.partition_responses[0] for each in wire.receive()[1].responses)
    assert gone.error_code is ErrorCode.unknown_topic_or_partition
    assert kept.error_code is ErrorCode.none


def bomb(codec: int, size: int) -> bytes:
    """A batch whose payload is one record of zeros, of which next to nothing is left."""
    honest = build([Record(0, 0, None, b"")])
    if codec == codecs.GZIP:
        stream = zlib.compressobj(9, zlib.DEFLATED, 31)
        stored = b"".join(stream.compress(bytes(MEGABYTE)) for _ in range(size // MEGABYTE))
        stored += stream.flush()
    else:
        stored = codecs.compress(codec, bytes(size))
    header = batches.read_header(honest)
    return batches.pack(header._replace(attributes=codec), stored)


@pytest.mark.parametrize(
    "codec", [codecs.GZIP, codecs.LZ4, codecs.ZSTD], ids=["gzip", "lz4", "zstd"]
)
def test_a_bomb_is_refused_and_others_do_not_notice(broker: Serving, codec: int) -> None:
    data = bomb(codec, 200 * MEGABYTE)
    with Bystander(broker.bootstrap) as honest, broker.wire() as wire:
        for _ in range(3):
            row = produce(wire, "t", data)
            assert row.error_code is ErrorCode.message_too_large
        honest.goes_on()
        assert end_offset(wire, "t") == 0


def test_many_bombs_in_one_request_share_its_bound(
    broker: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validation, "REQUEST_PAYLOAD_BYTES_MAX", 5 * MEGABYTE)
    data = build([Record(0, 0, None, bytes(2 * MEGABYTE))], codec=codecs.LZ4)
    parts = [{"index": number, "records": data} for number in range(3)]
    with broker.wire() as wire:
        request = {"name": "t", "partition_data": parts}
        answer = wire.ask("produce", 9, acks=-1, timeout=5000, topic_data=[request])
        rows = answer.responses[0].partition_responses
        assert [row.error_code.name for row in rows] == ["none", "none", "message_too_large"]


def test_a_well_compressed_batch_is_taken(broker: Serving) -> None:
    """Forty times is nothing special for JSON, and a megabyte compressed is allowed by default."""
    line = b'{"name": "a name", "number": 12345, "place": "somewhere"}'
    records = [Record(n, 0, None, line + b"%d" % n) for n in range(60_000)]
    for codec in range(1, 5):
        with broker.wire() as wire:
            assert produce(wire, "t", build(records, codec=codec)).error_code is ErrorCode.none


def test_a_poison_record_in_a_compressed_batch_is_refused(broker: Serving) -> None:
    honest = build([Record(n, 0, None, bytes(500_000)) for n in range(3)])
    payload = bytearray(honest[61:])
    payload[500_020] ^= 0x40
    header = batches.read_header(honest)._replace(attributes=codecs.ZSTD)
    poison = batches.pack(header, codecs.compress(codecs.ZSTD, bytes(payload)))
    with broker.wire() as wire:
        assert produce(wire, "t", poison).error_code is ErrorCode.invalid_record
        good = build([Record(0, 0, None, b"v")])
        assert produce(wire, "t", good).base_offset == 0
        assert len(read_batches(fetch(wire, "t", 0).records)) == 1


def test_a_batch_is_checked_by_the_configs_that_count_when_it_is_stored(broker: Serving) -> None:
    """It has no key, and while it is being checked, its topic becomes one that needs keys."""
    with busy_threads(broker) as release, broker.wire() as wire, broker.wire() as other:
        wire.send("produce", 9, **produce_request("t", compressed(0)))
        until(lambda: broker.call(lambda: broker.broker.memory.used["payloads"]), "the check")
        change = {"name": "cleanup.policy", "config_operation": 0, "value": "compact"}
        asked = {"resource_type": 2, "resource_name": "t", "configs": [change]}
        answer = other.ask("incremental_alter_configs", 1, resources=[asked], validate_only=False)
        assert answer.responses[0].error_code is ErrorCode.none
        release.set()
        (row,) = wire.receive()[1].responses[0].partition_responses
        assert row.error_code is ErrorCode.invalid_record
        assert [each.batch_index for each in row.record_errors] == [0]
        assert end_offset(other, "t") == 0
        again = build([Record(0, 0, b"key", bytes(300_000))], codec=codecs.ZSTD)
        assert produce(wire, "t", again).error_code is ErrorCode.none
    assert broker.call(lambda: broker.broker.memory.used["payloads"]) == 0


def test_a_batch_is_checked_by_the_configs_of_a_topic_that_was_made_again(broker: Serving) -> None:
    with busy_threads(broker) as release, broker.wire() as wire, broker.wire() as other:
        wire.send("produce", 9, **produce_request("t", compressed(0)))
        until(lambda: broker.call(lambda: broker.broker.memory.used["payloads"]), "the check")
        assert delete(other, "t") is ErrorCode.none
        broker.create("t", cleanup_policy="compact")
        release.set()
        (row,) = wire.receive()[1].responses[0].partition_responses
        assert row.error_code is ErrorCode.invalid_record
        assert end_offset(other, "t") == 0
