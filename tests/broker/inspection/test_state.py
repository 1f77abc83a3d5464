"""Transactions, groups and share groups: what their topics say, against the partitions."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headwater.broker.inspection.check import inspect
from headwater.broker.inspection.findings import Severity
from headwater.broker.inspection.repair import repair
from headwater.broker.shares import records as share_records
from headwater.broker.transactions import records as state_records
from headwater.broker.transactions.transaction import State, Transaction
from headwater.log import checkpoints
from headwater.log.config import LogConfig
from headwater.log.files import Files
from headwater.log.recovery import open_partition
from headwater.record import batch as batches
from headwater.record import records
from headwater.record.batch import BatchHeader
from tests.broker.inspection.world import (
    World,
    batches_of,
    checked,
    mended,
    patch,
    read_folder,
)
from tests.broker.processes import broker_process
from tests.broker.serving import serving
from tests.compat.waiting import until

LATER_MS = 4_000_000_000_000


@pytest.fixture
def open_transaction(tmp_path: Path) -> Path:
    """A folder that kill -9 has left in the middle of a transaction."""
    data = tmp_path / "data"
    with broker_process(data, "auto.create.topics.enable=true") as process:
        producer = Producer({"bootstrap.servers": process.bootstrap, "transactional.id": "till"})
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce("paid", b"value")
        assert producer.flush(30) == 0
        process.kill()
        producer.purge()
    return data


def test_an_open_transaction_is_named_with_its_producer_and_who_waits(
    open_transaction: Path,
) -> None:
    report = checked(open_transaction)
    (finding,) = [each for each in report.findings if each.topic == "paid"]
    assert (finding.kind, finding.severity) == ("transaction-open", Severity.NOTE)
    assert "'till'" in finding.what
    assert "producer 0 (epoch 0" in finding.what
    assert "read_committed stand still at offset 0 of paid-0" in finding.means
    assert "until it ends" in finding.means


def test_an_overdue_transaction_is_said_to_end_with_the_next_start(open_transaction: Path) -> None:
    report = inspect(open_transaction, now_ms=LATER_MS)
    (finding,) = [each for each in report.findings if each.kind == "transaction-open"]
    assert "is over, and the next start aborts it" in finding.means


def test_a_transaction_that_the_coordinator_does_not_know_is_named(open_transaction: Path) -> None:
    for path in open_transaction.glob("__transaction_state-*/*.log"):
        shutil.rmtree(path.parent)
    kinds = {each.kind for each in checked(open_transaction).wrong}
    assert "transaction-unknown" in kinds


def test_a_record_of_the_state_that_cannot_be_read_is_named(world: World) -> None:
    path = max(world.data.glob("__transaction_state-*/*.log"), key=lambda each: each.stat().st_size)
    with serving(world.data) as broker:
        number = int(path.parent.name.rpartition("-")[2])
        data = records.build([records.Record(0, 1, b"\0\0\0\3abc", b"\0\x09nonsense")])
        partition = broker.broker.topics.partitions["__transaction_state", number]

        async def write() -> None:
            offset = partition.append(data, batches.read_header(data), 1)
            await partition.durable(offset + 1)

        broker.run(write())
    (finding,) = checked(world.data).wrong
    assert finding.kind == "state-record-bad"
    assert finding.topic == "__transaction_state"


def test_commits_beyond_the_end_before_the_start_and_of_no_topic_are_named(world: World) -> None:
    with serving(world.data) as broker:
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "shipping"})
        consumer.commit(offsets=[TopicPartition("orders", 0, 99_999)], asynchronous=False)
        consumer.close()
        with broker.wire() as wire:
            wanted = [{"partition_index": 1, "offset": 50}]
            wire.ask(
                "delete_records",
                2,
                topics=[{"name": "orders", "partitions": wanted}],
                timeout=9000,
            )
    report = checked(world.data)
    (beyond,) = report.wrong
    assert (beyond.kind, beyond.severity) == ("commit-beyond-end", Severity.DAMAGE)
    assert "group shipping has committed offset 99999" in beyond.what
    (before,) = [each for each in report.findings if each.kind == "commit-before-start"]
    assert "group billing" in before.what


def test_commits_for_a_topic_that_is_not_there_are_named(world: World) -> None:
    catalogue = world.segments("__headwater_catalogue")[-1]
    data = catalogue.read_bytes()
    found = [
        each
        for each in batches_of(catalogue)
        if b"topic/excised" in data[each[0] :][: each[1].size]
    ]
    position, header = found[0]
    shutil.rmtree(world.folder("excised"))
    # The record that made the topic becomes one about something else, checksum and all.
    body = data[position + batches.HEADER_BYTES : position + header.size]
    patch(catalogue, position, batches.pack(header, body.replace(b"topic/", b"other/")))
    kinds = [each.kind for each in checked(world.data).wrong]
    assert kinds == ["commit-without-topic"]


def test_a_damaged_record_of_the_groups_does_not_keep_the_broker_from_starting(
    world: World,
) -> None:
    path = max(world.data.glob("__consumer_offsets-*/*.log"), key=lambda each: each.stat().st_size)
    position, _ = batches_of(path)[0]
    patch(path, position + 65, b"\xff\xff")
    assert [each.kind for each in checked(world.data).wrong] == ["batch-damaged"]
    mended(world.data)
    assert read_folder(world.data) == world.uncommitted


def test_a_lost_list_of_aborted_transactions_is_made_anew(world: World) -> None:
    for path in world.folder("paid").glob("*.txnindex"):
        path.unlink()
    assert {each.kind for each in checked(world.data).wrong} == {"aborted-wrong"}
    mended(world.data)
    assert read_folder(world.data, committed=True) == world.committed


def test_an_impossible_recovery_point_is_not_believed(world: World) -> None:
    path = world.data / checkpoints.RECOVERY_POINTS
    offsets = checkpoints.read_offsets(Files(), path)
    checkpoints.write_offsets(Files(), path, {**offsets, ("orders", 0): 2**61})
    (finding,) = checked(world.data).wrong
    assert (finding.kind, finding.severity) == ("end-disagrees", "nuisance")
    mended(world.data)
    assert read_folder(world.data) == world.uncommitted


@pytest.mark.parametrize("is_older_copy", [True, False])
def test_a_recovery_point_beyond_the_end_names_what_is_missing(
    world: World, is_older_copy: bool
) -> None:
    """All files of a folder that was put back from an older copy agree with each other."""
    for name in () if is_older_copy else ("*.snapshot", checkpoints.DURABLE_OFFSET):
        for each in world.folder("orders").glob(name):
            each.unlink()
    path = world.data / checkpoints.RECOVERY_POINTS
    offsets = checkpoints.read_offsets(Files(), path)
    end = offsets["orders", 0]
    checkpoints.write_offsets(Files(), path, {**offsets, ("orders", 0): end + 7})
    (finding,) = checked(world.data).wrong
    assert (finding.severity, finding.first_offset, finding.last_offset) == ("loss", end, end + 6)
    mended(world.data)
    assert read_folder(world.data) == world.uncommitted


def markers(world: World) -> list[tuple[Path, int, BatchHeader]]:
    """Of the topic `paid`: every third transaction aborts, beginning with the second."""
    return [
        (path, position, header)
        for path in world.segments("paid")
        for position, header in batches_of(path)
        if header.is_control
    ]


def assert_lost(data: Path, header: BatchHeader) -> None:
    """`header`: of the marker that is damaged, behind the four records of its transaction."""
    marker = header.base_offset
    (finding,) = [each for each in checked(data).wrong if each.kind == "commit-marker-lost"]
    assert finding.severity is Severity.LOSS
    assert (finding.first_offset, finding.last_offset) == (marker - 4, marker - 1)
    assert f"producer {header.producer_id} at the offsets {marker - 4} to" in finding.what
    assert f"offset {marker} cannot be read" in finding.what
    assert "readers with read_committed do not see its records" in finding.means


@pytest.mark.parametrize("is_repaired", [False, True])
@pytest.mark.parametrize("first", [2, 16, 70])
def test_a_damaged_commit_marker_is_a_loss_before_and_after_a_start(
    world: World, first: int, is_repaired: bool
) -> None:
    path, position, header = markers(world)[-1]
    for place in (first, 70):
        patch(path, position + place, b"\xff\xfe")
    assert_lost(world.data, header)
    if is_repaired:
        repair(world.data)
        assert_lost(world.data, header)
    with serving(world.data):
        pass
    assert_lost(world.data, header)


@pytest.mark.parametrize("number", [0, 6])
def test_a_damaged_commit_marker_is_a_loss_where_the_next_transaction_aborts(
    world: World, number: int
) -> None:
    path, position, header = markers(world)[number]
    patch(path, position + 70, b"\xff\xfe")
    assert_lost(world.data, header)


def test_a_damaged_abort_marker_hides_nothing(world: World) -> None:
    path, position, _ = markers(world)[1]
    patch(path, position + 61 + 12, b"\xff")
    assert [each.kind for each in checked(world.data).wrong] == ["batch-damaged"]


@pytest.mark.parametrize("state", [State.PREPARE_COMMIT, State.PREPARE_ABORT])
def test_a_transaction_that_was_decided_and_lacks_its_marker_is_named_and_ends_with_the_next_start(
    open_transaction: Path, state: State
) -> None:
    """As a crash between the decision and the marker leaves it."""
    (name,) = {
        path.parent.name
        for path in open_transaction.glob("__transaction_state-*/*.log")
        if path.stat().st_size
    }
    directory = open_transaction / name
    end = checkpoints.read_durable_offset(Files(), directory)
    log, _ = open_partition(Files(), directory, LogConfig(compact=True), 1, recovery_point=end)
    decided = Transaction(
        "till",
        0,
        0,
        timeout_ms=60_000,
        state=state,
        partitions=frozenset({("paid", 0)}),
        start_ms=1,
    )
    data = records.build(
        [records.Record(0, 1, state_records.key("till"), state_records.value(decided))]
    )
    log.stage(data, batches.read_header(data), 1)
    log.close()
    report = checked(open_transaction)
    assert report.wrong == []
    (finding,) = [each for each in report.findings if each.topic == "paid"]
    how = "commits" if state is State.PREPARE_COMMIT else "aborts"
    assert finding.kind == "transaction-undone"
    assert f"{how}; its marker is missing here" in finding.what
    with serving(open_transaction) as broker:
        log = broker.log("paid")
        until(lambda: broker.call(log.last_stable_offset) == 2, "the marker")
    assert [each.topic for each in checked(open_transaction).findings if each.topic == "paid"] == []


def test_a_share_group_beyond_the_end_is_named(world: World) -> None:
    with serving(world.data) as broker:
        topic_id = broker.broker.catalogue.topics["orders"].id
        broker.create("__share_group_state", 1)
        key = share_records.Key("shippers", topic_id, 0)
        value = share_records.Value(0, 99_999, [])
        partition = broker.broker.topics.partitions["__share_group_state", 0]
        rows = [
            (share_records.write_key(0, key), share_records.write_value(0, value)),
            (b"nonsense", b""),
        ]
        data = records.build([records.Record(n, 1, *row) for n, row in enumerate(rows)])

        async def write() -> None:
            await partition.durable(partition.append(data, batches.read_header(data), 1) + 2)

        broker.run(write())
    wrong = checked(world.data).wrong
    assert sorted(each.kind for each in wrong) == ["share-beyond-end", "state-record-bad"]
    assert any("share group shippers begins at offset 99999" in each.what for each in wrong)


@pytest.mark.parametrize("step", ["decided", "indexes in place"])
def test_a_compaction_that_was_interrupted_is_a_note_and_nothing_is_wrong(
    world: World, step: str
) -> None:
    (world.data / ".kafka_cleanshutdown").unlink()
    for path in sorted(world.folder("keyed").iterdir()):
        if path.name.startswith("0" * 20) and not path.name.endswith(".snapshot"):
            if step == "decided" or path.suffix == ".log":
                shutil.copy(path, path.with_name(path.name + ".swap"))
    report = checked(world.data)
    assert report.wrong == []
    assert "leftover" in {each.kind for each in report.findings}
    assert read_folder(world.data) == world.uncommitted


def test_a_damaged_outcome_of_a_compaction_gives_way_to_what_it_was_to_replace(
    world: World,
) -> None:
    """The next start would finish what was decided, and remove what is whole."""
    path = world.segments("keyed")[0]
    damaged = path.with_name(path.name + ".swap")
    shutil.copy(path, damaged)
    position, header = batches_of(path)[0]
    patch(damaged, position + header.size - 2, b"\xff\xfe")
    (finding,) = checked(world.data).wrong
    assert finding.kind == "compaction-damaged"
    outcome = mended(world.data)
    assert outcome.aside is not None
    assert (outcome.aside / damaged.relative_to(world.data)).exists()
    assert read_folder(world.data) == world.uncommitted
