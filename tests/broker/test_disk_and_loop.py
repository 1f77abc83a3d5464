"""The disk is the threads' business: on the event loop a slow one would hold up everybody."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.disks import HandDisk
from tests.broker.serving import Serving, create, delete, serving
from tests.compat.asking import offset_at, produce, read_all
from tests.compat.batches import batch
from tests.compat.transacting import Transactor
from tests.compat.wire import ErrorCode

OPERATIONS = (
    *("open", "create", "write", "write_atomic", "truncate", "sync"),
    *("rename", "remove", "sync_dir"),
)


@pytest.fixture
def seen() -> list[str]:
    return []


@pytest.fixture
def broker(data: Path, seen: list[str]) -> Iterator[Serving]:
    hand = HandDisk()
    with serving(data, files=hand) as running:
        loop = running.call(threading.get_ident)
        for operation in OPERATIONS:

            def note(path: Path, operation: str = operation) -> None:
                if threading.get_ident() == loop:
                    seen.append(f"{operation} {path.parent.name}/{path.name}")

            hand.on(operation, note)
        yield running


def test_no_request_waits_for_the_disk_on_the_event_loop(broker: Serving, seen: list[str]) -> None:
    with broker.wire() as wire:
        create(wire, "t", 3, segment_bytes=1 << 20)
        for _ in range(6):  # several segments
            assert produce(wire, "t", batch([(b"k", b"v" * 400_000)])).error_code is ErrorCode.none
        assert len(read_all(wire, "t")) == 6
        assert offset_at(wire, "t", 1).error_code is ErrorCode.none
        writer = Transactor(wire, "x", version=1).init()
        assert writer.add("t", 0, 1, 2) is ErrorCode.none
        writer.write("t", b"v", partition=1)
        writer.end(commit=False)
        place = {"partition_index": 1, "committed_offset": 1, "committed_leader_epoch": -1}
        asked = {"group_id": "g", "generation_id_or_member_epoch": -1}
        wire.ask("offset_commit", 8, topics=[{"name": "t", "partitions": [place]}], **asked)
        cut = [{"partition_index": 0, "offset": 3}]
        wire.ask("delete_records", 2, topics=[{"name": "t", "partitions": cut}], timeout=9000)
        assert delete(wire, "t") is ErrorCode.none
    rolls = {f"create t-0/{offset:020}.log" for offset in (2, 4)}
    assert set(seen) <= rolls, "a batch that begins a segment makes its file, and nothing else"
