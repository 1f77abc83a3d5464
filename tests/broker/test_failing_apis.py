"""Every API on a disk that fails at one operation: the client gets an answer, and stays connected."""

from __future__ import annotations

import contextlib
import errno
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.broker.disks import HandDisk
from tests.broker.serving import create, serving
from tests.compat.asking import fetch, fetch_request, produce
from tests.compat.batches import NOW_MS, TRANSACTIONAL, batch
from tests.compat.waiting import until
from tests.compat.wire import ConnectionClosed, ErrorCode, Wire
from tests.security.matrix import CASES, Names

FAULTS = [
    ("nothing", errno.EIO),
    ("write", errno.ENOSPC),
    ("write", errno.EIO),
    ("create", errno.EMFILE),
    ("create", errno.ENOSPC),
    ("write_atomic", errno.ENOSPC),
    ("open", errno.EMFILE),
    ("read", errno.EIO),
    ("rename", errno.EIO),
    ("truncate", errno.EIO),
    ("sync", errno.EIO),
    ("sync_dir", errno.EIO),
]
FENCING = ("sync", "sync_dir")


def requests(names: Names) -> list[tuple[str, int, dict[str, Any]]]:
    """One of each kind, and those that change something."""
    part = {"partition_index": 0}
    txn = {"transactional_id": "x", "producer_id": 9, "producer_epoch": 0}
    marks = {"producer_id": 77, "producer_epoch": 0, "transaction_result": True}
    config = {"name": "retention.ms", "config_operation": 0, "value": "1000000"}
    resource = {"resource_type": 2, "resource_name": "t", "configs": [config]}
    quota = {"entity": [{"entity_type": "client-id", "entity_name": "c"}]}
    limit = {"ops": [{"key": "producer_byte_rate", "value": 1e9, "remove": False}]}
    own: list[tuple[str, int, dict[str, Any]]] = [
        ("create_topics", 7, {"topics": [_topic("new")], "timeout": 9000}),
        ("create_partitions", 3, {"topics": [{"name": "u", "count": 3}], "timeout": 9000}),
        ("delete_topics", 6, {"topics": [{"name": "doomed"}], "timeout": 9000}),
        ("incremental_alter_configs", 1, {"resources": [resource]}),
        ("alter_client_quotas", 1, {"entries": [{**quota, **limit}]}),
        ("fetch", 12, fetch_request("t", 0)),
        ("fetch", 12, fetch_request("t", 20, isolation_level=1)),
        ("list_offsets", 7, _at("t", NOW_MS)),
        ("list_offsets", 7, _at("t", -3)),
        ("offset_for_leader_epoch", 4, _epochs("t")),
        ("delete_records", 2, _delete("t", 15)),
        ("write_txn_markers", 1, {"markers": [{**marks, "topics": [_numbers("t")]}]}),
        ("init_producer_id", 4, {"transactional_id": "x", "transaction_timeout": 9000, **_NEW}),
        ("init_producer_id", 4, {"transactional_id": None, "transaction_timeout": 9000, **_NEW}),
        ("end_txn", 3, {**txn, "committed": True}),
        ("delete_groups", 2, {"groups_names": ["g"]}),
        ("offset_delete", 0, {"group_id": "g", "topics": [{"name": "t", "partitions": [part]}]}),
        ("describe_log_dirs", 4, {"topics": None}),
        ("metadata", 12, {"topics": [{"name": "auto"}], "allow_auto_topic_creation": True}),
    ]
    return own + [
        (case.api, case.version, case.request(names))
        for case in CASES
        if not case.api.startswith("sasl_")
    ]


_NEW = {"producer_id": -1, "producer_epoch": -1}


def _topic(name: str) -> dict[str, Any]:
    return {"name": name, "num_partitions": 2, "replication_factor": 1}


def _at(topic: str, timestamp: int) -> dict[str, Any]:
    part = {"partition_index": 0, "timestamp": timestamp}
    return {"replica_id": -1, "topics": [{"name": topic, "partitions": [part]}]}


def _epochs(topic: str) -> dict[str, Any]:
    part = {"partition": 0, "leader_epoch": 0, "current_leader_epoch": -1}
    return {"replica_id": -1, "topics": [{"topic": topic, "partitions": [part]}]}


def _delete(topic: str, offset: int) -> dict[str, Any]:
    part = {"partition_index": 0, "offset": offset}
    return {"topics": [{"name": topic, "partitions": [part]}], "timeout": 9000}


def _numbers(topic: str) -> dict[str, Any]:
    return {"name": topic, "partition_indexes": [0]}


@pytest.mark.parametrize(
    ("operation", "code"), FAULTS, ids=[f"{name}-{errno.errorcode[code]}" for name, code in FAULTS]
)
def test_every_request_is_answered_whatever_the_disk_does(
    data: Path, operation: str, code: int
) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire:
        names = _prepare(wire)
        broker.run(broker.broker.housekeeping._release())
        disk.cold = "*"
        with disk.failing(operation, code=code):
            assert _unanswered(broker.bootstrap, names) == []
        disk.cold = ""
        if operation in FENCING:
            return
        until(lambda: _works(wire), "everything to work again")
    with serving(data) as broker, broker.wire() as wire:
        assert _works(wire)


def _unanswered(bootstrap: str, names: Names) -> list[str]:
    """The requests that cost a client its connection."""
    found = []
    for api, version, request in requests(names):
        with contextlib.closing(Wire(bootstrap)) as wire:
            try:
                wire.send(api, version, **request)
                wire.receive_bytes()
            except ConnectionClosed:
                found.append(f"{api} version {version}")
    return found


def _prepare(wire: Wire) -> Names:
    small = {"internal_segment_bytes": 2000}
    topic_id, other_id = create(wire, "t", **small), create(wire, "u")
    create(wire, "doomed", 3)
    for _ in range(30):
        assert produce(wire, "t", batch([(b"k", bytes(300))])).error_code is ErrorCode.none
    produce(wire, "t", batch([(b"k", b"v")], producer=(77, 0, 0), attributes=TRANSACTIONAL))
    names = Names(
        topic="t", other="u", missing="m", group="g", transaction="x",
        topic_id=topic_id, other_id=other_id,
    )  # fmt: skip
    for api, version, request in requests(names):
        if api in ("offset_commit", "init_producer_id", "find_coordinator"):
            wire.ask(api, version, **request)
    return names


def _works(wire: Wire) -> bool:
    name = f"again-{uuid.uuid4().hex}"
    made = wire.ask("create_topics", 7, topics=[_topic(name)], timeout=9000).topics[0]
    return (
        made.error_code is ErrorCode.none
        and produce(wire, "t", batch()).error_code is ErrorCode.none
        and produce(wire, name, batch()).error_code is ErrorCode.none
        and fetch(wire, "t", 25).error_code is ErrorCode.none
    )


@pytest.mark.parametrize(("operation", "code"), [("read", errno.EIO), ("open", errno.EMFILE)])
def test_a_reader_is_told_that_the_disk_failed_and_reads_on_when_it_works(
    data: Path, operation: str, code: int
) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire:
        _prepare(wire)
        broker.run(broker.broker.housekeeping._release())
        disk.cold = "t-0/*"
        with disk.failing(operation, code=code, name="t-0/*"):
            assert fetch(wire, "t", 0).error_code is ErrorCode.kafka_storage_error
            found = wire.ask("list_offsets", 7, **_at("t", NOW_MS)).topics[0].partitions[0]
            assert found.error_code is ErrorCode.kafka_storage_error
        assert fetch(wire, "t", 0).error_code is ErrorCode.none
        found = wire.ask("list_offsets", 7, **_at("t", NOW_MS)).topics[0].partitions[0]
        assert (found.error_code, found.offset) == (ErrorCode.none, 0)


def test_every_produce_on_a_full_disk_is_refused_with_a_code_that_clients_retry(
    data: Path,
) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire:
        _prepare(wire)
        with disk.full():
            for _ in range(5):
                row = produce(wire, "t", batch([(b"k", bytes(300))]))
                assert row.error_code is ErrorCode.kafka_storage_error
                assert "No space left" in row.error_message
        until(lambda: _works(wire), "everything to work again")
