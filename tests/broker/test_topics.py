"""The life of topics under traffic: made, grown, deleted, and made again."""

from __future__ import annotations

import errno
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.broker.bystander import Bystander
from tests.broker.disks import HandDisk
from tests.broker.serving import Serving, create, delete, serving
from tests.compat.asking import end_offset, fetch, fetch_request, produce, read_all
from tests.compat.batches import batch
from tests.compat.waiting import AT_ONCE_SECONDS, LONG_MS, until
from tests.compat.wire import ConnectionClosed, ErrorCode, Wire

GONE = {
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.unknown_topic_id,
    ErrorCode.kafka_storage_error,
    ErrorCode.not_leader_or_follower,
}
"""What a client may be told while a topic goes: all of them make it look for the topic again."""


def folders(broker: Serving, topic: str) -> list[str]:
    return sorted(path.name for path in broker.broker.data.glob(f"{topic}-*"))


def test_a_topic_made_again_has_another_id_and_none_of_the_old_data(
    shared: Serving, wire: Wire, topic: str
) -> None:
    ids = []
    for number in range(3):
        ids.append(create(wire, topic, 2))
        assert end_offset(wire, topic) == 0
        produce(wire, topic, batch([(None, b"life %d" % number)]))
        assert [each.pairs for each in read_all(wire, topic)] == [[(None, b"life %d" % number)]]
        assert delete(wire, topic) is ErrorCode.none
        assert not folders(shared, topic)
    assert len(set(ids)) == 3


def test_an_old_id_neither_reads_nor_writes_the_new_topic(wire: Wire, topic: str) -> None:
    old = create(wire, topic)
    delete(wire, topic)
    create(wire, topic)
    produce(wire, topic, batch())
    part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
    wanted = [{"topic_id": old, "partitions": [part]}]
    limits = {"max_wait": 1, "min_bytes": 1, "max_bytes": 10_000}
    found = wire.ask("fetch", 16, topics=wanted, **limits).responses[0].partitions[0]
    assert (found.error_code, found.records or b"") == (ErrorCode.unknown_topic_id, b"")
    rows = [{"index": 0, "records": batch()}]
    asked = [{"topic_id": old, "partition_data": rows}]
    refused = wire.ask("produce", 13, acks=-1, timeout=1000, topic_data=asked)
    assert refused.responses[0].partition_responses[0].error_code is ErrorCode.unknown_topic_id
    assert end_offset(wire, topic) == 1
    found = wire.ask("metadata", 12, topics=[{"topic_id": old, "name": None}])
    assert found.topics[0].error_code is ErrorCode.unknown_topic_id


def test_producer_state_of_a_deleted_topic_is_forgotten(wire: Wire, topic: str) -> None:
    create(wire, topic)
    produce(wire, topic, batch(producer=(77, 0, 0)))
    delete(wire, topic)
    create(wire, topic)
    assert produce(wire, topic, batch(producer=(77, 0, 0))).base_offset == 0
    assert end_offset(wire, topic) == 1, "taken for a duplicate of the deleted one"


def test_deleting_while_it_is_written_and_read_harms_no_other_topic(
    shared: Serving, topic: str
) -> None:
    """Writers and readers get an answer that makes them look again, never a broken connection."""
    codes: set[ErrorCode] = set()
    problems: list[BaseException] = []
    done = threading.Event()

    def traffic(ask: Any) -> None:
        try:
            with shared.wire() as wire:
                while not done.is_set():
                    codes.add(ask(wire).error_code)
        except BaseException as error:
            problems.append(error)

    def writing(wire: Wire) -> Any:
        return produce(wire, topic, batch([(None, bytes(300))]))

    def reading(wire: Wire) -> Any:
        return fetch(wire, topic, max_wait=5)

    with Bystander(shared.bootstrap, f"other-{uuid.uuid4().hex[:6]}") as bystander:
        threads = [
            threading.Thread(target=traffic, args=(each,), daemon=True)
            for each in (writing, reading) * 2
        ]
        with shared.wire() as admin:
            create(admin, topic)
            for thread in threads:
                thread.start()
            for _ in range(8):
                until(lambda: end_offset(admin, topic) > 20, "some traffic")
                assert delete(admin, topic) is ErrorCode.none
                create(admin, topic, internal_segment_bytes=2000)
            done.set()
        for thread in threads:
            thread.join()
        bystander.goes_on()
    assert not problems
    assert codes - {ErrorCode.none} <= GONE | {ErrorCode.offset_out_of_range}


def test_a_waiting_consumer_learns_at_once_that_its_topic_is_gone(
    shared: Serving, wire: Wire, topic: str
) -> None:
    create(wire, topic)
    with shared.wire() as reader:
        reader.send("fetch", 12, **fetch_request(topic, max_wait=LONG_MS))
        until(lambda: shared.call(lambda: len(shared.broker.sessions.waiting)), "it to wait")
        begin = time.monotonic()
        delete(wire, topic)
        found = reader.receive()[1].responses[0].partitions[0]
        assert found.error_code is ErrorCode.unknown_topic_or_partition
        assert time.monotonic() - begin < AT_ONCE_SECONDS


def test_deleting_while_old_data_is_read_from_the_disk_ends_that_read_in_order(data: Path) -> None:
    """The reader is in another thread, with the file in its hands."""
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as reader, broker.wire() as admin:
        create(admin, "t")
        produce(admin, "t", batch())
        disk.cold = "t-0/*.log"
        with disk.held("read", "t-0/*.log") as held:
            reader.send("fetch", 12, **fetch_request("t", max_wait=1))
            held.until_reached()
            admin.send("delete_topics", 6, topics=[{"name": "t"}], timeout=9000)
            _let_it_remove(data / "t-0")
            held.release()
            assert admin.receive()[1].responses[0].error_code is ErrorCode.none
            found = reader.receive()[1].responses[0].partitions[0]
            assert found.error_code in GONE | {ErrorCode.none}
        left = {each.name for each in admin.ask("metadata", 12, topics=None).topics}
        assert left <= {"__headwater_health"}


def test_deleting_while_a_time_is_looked_for_ends_that_in_order(data: Path) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as reader, broker.wire() as admin:
        create(admin, "t")
        produce(admin, "t", batch())
        with disk.held("read", "t-0/*.log") as held:
            wanted = [{"partition_index": 0, "timestamp": 5}]
            topics = [{"name": "t", "partitions": wanted}]
            reader.send("list_offsets", 7, replica_id=-1, topics=topics)
            held.until_reached()
            admin.send("delete_topics", 6, topics=[{"name": "t"}], timeout=9000)
            _let_it_remove(data / "t-0")
            held.release()
            assert admin.receive()[1].responses[0].error_code is ErrorCode.none
            found = reader.receive()[1].topics[0].partitions[0]
            assert found.error_code in GONE | {ErrorCode.none}


def _let_it_remove(folder: Path) -> None:
    """Give a deletion that does not wait for readers the time to take the files away from them."""
    deadline = time.monotonic() + 0.5
    while folder.exists() and time.monotonic() < deadline:
        time.sleep(0.01)


def test_deleting_waits_for_no_stranger(data: Path) -> None:
    """One topic's slow removal does not stop the others' traffic."""
    with serving(data) as broker, broker.wire() as wire:
        create(wire, "large", 50)
        with Bystander(broker.bootstrap) as bystander:
            assert delete(wire, "large") is ErrorCode.none
            bystander.goes_on()
            assert bystander.slowest < AT_ONCE_SECONDS
        assert not folders(broker, "large")


def test_two_hundred_partitions_are_made_and_used_and_others_go_on_meanwhile(data: Path) -> None:
    with serving(data) as broker, broker.wire() as wire:
        with Bystander(broker.bootstrap) as bystander:
            create(wire, "wide", 200)
            assert bystander.slowest < AT_ONCE_SECONDS
        described = wire.ask("metadata", 12, topics=[{"name": "wide"}]).topics[0]
        assert [each.partition_index for each in described.partitions] == list(range(200))
        rows = [{"index": n, "records": batch([(None, b"%d" % n)])} for n in range(200)]
        asked = [{"name": "wide", "partition_data": rows}]
        stored = wire.ask("produce", 9, acks=-1, timeout=5000, topic_data=asked).responses[0]
        assert {row.error_code for row in stored.partition_responses} == {ErrorCode.none}
        found = wire.ask("fetch", 12, **fetch_request("wide", partitions=range(200)))
        assert len([part for part in found.responses[0].partitions if part.records]) == 200
    with serving(data) as broker, broker.wire() as wire:
        assert {end_offset(wire, "wide", number) for number in range(0, 200, 7)} == {1}


def test_many_clients_that_make_the_same_topic_get_one(shared: Serving, topic: str) -> None:
    made: list[ErrorCode] = []

    def make() -> None:
        asked = {"name": topic, "num_partitions": 3, "replication_factor": 1}
        with shared.wire() as wire:
            answer = wire.ask("create_topics", 7, topics=[asked], timeout=9000)
            made.append(answer.topics[0].error_code)

    threads = [threading.Thread(target=make, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made) == [ErrorCode.none] + [ErrorCode.topic_already_exists] * 7
    assert folders(shared, topic) == [f"{topic}-{number}" for number in range(3)]


def test_two_clients_that_make_a_topic_by_asking_for_it_both_get_it(data: Path) -> None:
    settings = {"auto.create.topics.enable": True, "num.partitions": 300}
    with serving(data, settings) as running, running.wire() as one, running.wire() as two:
        for wire in (one, two):
            topics = [{"name": "new"}]
            wire.send("metadata", 9, topics=topics, allow_auto_topic_creation=True)
        codes = [wire.receive()[1].topics[0].error_code for wire in (one, two)]
        assert codes == [ErrorCode.none, ErrorCode.none]


def test_whoever_makes_a_topic_that_another_fails_to_make_gets_it(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not told that it exists, when it may never do."""
    go_on, begun = threading.Event(), threading.Event()
    with serving(data) as running, running.wire() as one, running.wire() as two:
        topics = running.broker.topics
        open_ = topics._open

        def refuse_once(topic: Any, first: int) -> None:
            if not begun.is_set():
                begun.set()
                go_on.wait(30)
                raise OSError(errno.ENOSPC, "No space left on device")
            open_(topic, first)

        monkeypatch.setattr(topics, "_open", refuse_once)
        asked = [{"name": "t", "num_partitions": 1, "replication_factor": 1}]
        one.send("create_topics", 5, topics=asked, timeout=30_000)
        assert begun.wait(30)
        two.send("create_topics", 5, topics=asked, timeout=30_000)
        go_on.set()
        codes = [wire.receive()[1].topics[0].error_code for wire in (one, two)]
    assert codes == [ErrorCode.kafka_storage_error, ErrorCode.none]


def test_a_topic_grows_while_it_is_written(shared: Serving, wire: Wire, topic: str) -> None:
    create(wire, topic)
    done, errors = threading.Event(), []

    def write() -> None:
        with shared.wire() as producer:
            while not done.is_set():
                errors.append(produce(producer, topic, batch()).error_code)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    for count in (2, 5, 9):
        asked = {"name": topic, "count": count, "assignments": None}
        grown = wire.ask("create_partitions", 3, topics=[asked], timeout=9000)
        assert grown.results[0].error_code is ErrorCode.none
        assert produce(wire, topic, batch(), partition=count - 1).base_offset == 0
    done.set()
    thread.join()
    assert set(errors) == {ErrorCode.none}


@pytest.mark.parametrize(
    "name",
    [
        "a-1",
        "x.y",
        "A_b",
        pytest.param("t" * 249, id="249"),
        "0",
        "-",
        "...",
    ],
)
def test_unusual_names_are_topics_like_any_other(data: Path, name: str) -> None:
    with serving(data) as broker, broker.wire() as wire:
        topic_id = create(wire, name)
        assert produce(wire, name, batch([(None, b"v")])).base_offset == 0
    with serving(data) as broker, broker.wire() as wire:
        found = wire.ask("metadata", 12, topics=[{"name": name}]).topics[0]
        assert (found.error_code, found.topic_id) == (ErrorCode.none, topic_id)
        assert len(read_all(wire, name)) == 1
        assert delete(wire, name) is ErrorCode.none


def test_a_client_that_leaves_while_its_topic_is_made_leaves_a_whole_topic(data: Path) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as other:
        with disk.held("create", "t-1") as held:
            with broker.wire() as wire:
                asked = {"name": "t", "num_partitions": 3, "replication_factor": 1}
                wire.send("create_topics", 7, topics=[asked], timeout=9000)
                held.until_reached()
            connections = broker.broker.connections
            until(lambda: broker.call(lambda: len(connections)) == 1, "it to be gone")
            held.release()
        create(other, "u")
        until(lambda: broker.call(lambda: broker.broker.topics.has("t", 2)), "the topic to be made")
        try:
            rows = [produce(other, "t", batch(), partition=number) for number in range(3)]
        except ConnectionClosed:
            pytest.fail("the half-made topic broke another connection")
        assert {row.error_code for row in rows} == {ErrorCode.none}
        assert delete(other, "t") is ErrorCode.none
