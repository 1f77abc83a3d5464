"""The files of transactions: compaction drops what was aborted, and Kafka's own tool reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.log.files import Files
from headwater.testing.apache_kafka import QUICK_JVM, MissingServer, java_tool
from tests.broker.serving import serving
from tests.compat.asking import fetch
from tests.compat.batches import CONTROL, read_batches
from tests.compat.missing import skip_or_fail
from tests.compat.transacting import Transactor
from tests.compat.waiting import until
from tests.compat.wire import Wire

SETTINGS = {"log.cleaner.enable": True, "log.cleaner.backoff.ms": 50}
EAGER = {
    "cleanup_policy": "compact",
    "min_cleanable_dirty_ratio": 0.01,
    "internal_segment_bytes": 600,
    "delete_retention_ms": 0,
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def values(wire: Wire, offset: int = 0) -> list[bytes | None]:
    """All data records, aborted ones too."""
    found: list[bytes | None] = []
    while (row := fetch(wire, "t", offset, max_wait=0)).high_watermark > offset:
        for each in read_batches(row.records):
            offset = each.last_offset + 1
            if not each.attributes & CONTROL:
                found += [value for _, value in each.pairs]
    return found


@pytest.mark.parametrize("version", [1, 2])
def test_compaction_keeps_the_newest_committed_record(data: Path, version: int) -> None:
    with serving(data, SETTINGS, files=Files()) as broker, broker.wire() as wire:
        broker.create("t", **EAGER)
        one = Transactor(wire, "one", version).init()
        for number in range(20):
            one.write("t", b"%d" % number)
            one.end(commit=number % 2 == 0)
        log = broker.log("t")
        until(lambda: broker.call(lambda: log.cleaned_offset) >= 30, "compaction")
        until(lambda: b"13" not in values(wire), "aborted records to go")
        left = values(wire)
        assert b"18" in left
        assert b"0" not in left
        assert b"1" not in left
    with serving(data, files=Files()) as broker, broker.wire() as wire:
        assert values(wire) == left
        answer = fetch(wire, "t", max_wait=0, isolation_level=1)
        assert answer.last_stable_offset == answer.high_watermark


def test_an_internal_topic_with_pending_offsets_is_compacted_and_read_again(data: Path) -> None:
    settings = {**SETTINGS, "offsets.topic.segment.bytes": 1 << 20}
    with serving(data, settings, files=Files()) as broker, broker.wire() as wire:
        broker.create("t")
        one = Transactor(wire, "one").init()
        for number in range(50):
            one.send_offsets("g", "t", {0: number})
            one.end(commit=number % 3 != 0)
        roll = broker.broker.topics.partitions["__consumer_offsets", 0].roll
        broker.call(lambda: roll(broker.broker.clock.now_ms()))
        one.send_offsets("g", "t", {0: 1000})
        log = broker.log("__consumer_offsets")
        until(lambda: broker.call(lambda: log.cleaned_offset) >= 50, "compaction")
    with serving(data, files=Files()) as broker:
        _, offsets = broker.call(lambda: broker.broker.groups.offsets.fetch("g"))
        assert offsets.get("t", 0).offset == 49
        assert offsets.is_unstable("t", 0)


def test_kafka_reads_the_list_of_aborted_transactions(data: Path) -> None:
    with serving(data, files=Files()) as broker, broker.wire() as wire:
        broker.create("t")
        one = Transactor(wire, "one").init()
        for commit in (True, False, False):
            one.write("t", b"x")
            one.end(commit)
    try:
        done = java_tool(
            "org.apache.kafka.tools.DumpLogSegments",
            *("--files", str(data / "t-0" / f"{0:020d}.txnindex")),
            jvm=QUICK_JVM,
        )
    except MissingServer as missing:
        skip_or_fail(f"Kafka's tools cannot run here: {missing}")
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if "producerId" in line]
    assert [("firstOffset: 2" in row, "firstOffset: 4" in row) for row in rows] == [
        (True, False),
        (False, True),
    ], done.stdout
