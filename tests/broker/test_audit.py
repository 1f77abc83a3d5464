"""Every change is written down by the broker, with who made it, and no request fails by that."""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from headwater.broker.audit import changes, description, limits, trail
from headwater.broker.audit.description import Change, Description, MayTell, described
from headwater.broker.audit.limits import Refusals
from headwater.broker.registry import Context, load_apis
from headwater.browse.audit import CHANGES, EDGE_CHANGES, Entry, newest, tell_of_part
from headwater.client import acls, topics, users
from headwater.client.log import Log
from headwater.record import records
from tests.broker.disks import HandDisk
from tests.broker.serving import Serving, create, delete, serving
from tests.compat.asking import produce
from tests.compat.batches import batch
from tests.compat.waiting import until
from tests.compat.wire import ConnectionClosed

CHANGING = ("Create", "Delete", "Alter", "Incremental", "Update", "Unregister", "Expire", "Renew")
NO_CHANGE = {
    "AlterPartitionReassignments": "there is one broker: it never moves anything",
    "AlterReplicaLogDirs": "the same",
    "UnregisterBroker": "the same",
    "CreateDelegationToken": "refused: there are none",
    "RenewDelegationToken": "the same",
    "ExpireDelegationToken": "the same",
    "UpdateFeatures": "the level of a protocol, which the broker's own log names",
}


@pytest.fixture
def broker(data: Path) -> Iterator[Serving]:
    with serving(data, settings={"audit.enable": True}) as running:
        yield running


@pytest.fixture
def log(broker: Serving) -> Iterator[Log]:
    with Log(broker.bootstrap, {"client.id": "a test"}) as opened:
        yield opened


def written(log: Log, count: int) -> list[Entry]:
    """The newest, oldest first, once there are so many."""
    until(lambda: len(newest(log, 100)) >= count, f"{count} changes")
    return list(reversed(newest(log, 100)))


def test_every_api_that_changes_something_is_audited_or_says_why_not() -> None:
    found = {api.name: key for key, api in load_apis().items() if api.name.startswith(CHANGING)}
    assert {name for name, key in found.items() if key not in changes.TABLE} == set(NO_CHANGE)


def test_changes_are_written_with_who_made_them_and_what_became_of_them(log: Log) -> None:
    topics.create(log.admin, "orders", 2, {"retention.ms": "1000"})
    with pytest.raises(KafkaException):
        topics.create(log.admin, "orders", 2)
    topics.grow(log.admin, "orders", 3)
    entry = ConfigEntry("retention.ms", "2000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, "orders", incremental_configs=[entry])
    log.admin.incremental_alter_configs([resource])[resource].result()
    users.put(log.admin, "ann", "wonderland", ["SCRAM-SHA-256"], 4096)
    log.admin.delete_topics(["orders"])["orders"].result()
    found = written(log, 6)
    assert [(e.what, e.kind, e.name, e.error) for e in found] == [
        ("create", "topic", "orders", None),
        ("create", "topic", "orders", "TOPIC_ALREADY_EXISTS"),
        ("add partitions", "topic", "orders", None),
        ("configure", "topic", "orders", None),
        ("set password", "user", "ann", None),
        ("delete", "topic", "orders", None),
    ]
    assert found[0].details == {"partitions": 2, "configs": {"retention.ms": "1000"}}
    assert found[3].details == {"configs": {"retention.ms": "2000"}}
    assert {(e.principal, e.client_id, e.host) for e in found} == {
        ("User:ANONYMOUS", "a test", "127.0.0.1")
    }
    assert "wonderland" not in json.dumps([e.as_json() for e in found])


def test_what_is_only_tried_is_no_change_and_refused_permissions_are(log: Log) -> None:
    log.admin.create_topics([NewTopic("tried", 1, 1)], validate_only=True)["tried"].result()
    wanted = [acls.Acl("User:ann", "allow", "read", "topic", "orders")]
    with pytest.raises(KafkaException):  # there is no authorizer
        acls.add(log.admin, wanted)
    (found,) = written(log, 1)
    assert (found.what, found.kind, found.name) == ("allow", "permission", "User:ann")
    assert found.error == "SECURITY_DISABLED" and found.details["on"] == "topic:orders"


def test_nobody_writes_it_but_the_broker(broker: Serving, log: Log) -> None:
    topics.create(log.admin, "orders", 1)
    written(log, 1)
    outcome: list[object] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    producer.produce(CHANGES, b"forged", on_delivery=lambda error, _: outcome.append(error))
    producer.flush(60)
    assert outcome[0] is not None and len(newest(log, 10)) == 1


def test_who_writes_what_the_edges_tell_passes_for_nobody_else(broker: Serving, log: Log) -> None:
    """It was shown as it stood there: as anybody's doing, of anything, at any time."""
    forged = {
        "at_ms": 1,
        "principal": "User:boss",
        "client_id": "headwater",
        "host": "10.0.0.1",
        "what": "delete",
        "kind": "topic",
        "name": "orders",
        "on_behalf_of": "boss",
        "details": {"to": "x" * 1000, "more": "x"},
        "error": "none",
    }
    topics.create(log.admin, EDGE_CHANGES, 1)
    outcome: list[object] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    headers = [("headwater.principal", b"User:boss"), ("headwater.host", b"10.0.0.1")]
    producer.produce(
        EDGE_CHANGES,
        json.dumps(forged),
        headers=headers,
        timestamp=1,
        on_delivery=lambda error, _: outcome.append(error),
    )
    producer.flush(60)
    assert outcome == [None]
    (found,) = (each for each in newest(log, 10) if each.kind == "webhook")
    assert (found.principal, found.host, found.client_id) == ("User:ANONYMOUS", "127.0.0.1", "")
    assert found.who == "boss, by User:ANONYMOUS", "whom it speaks for is a claim, and says whose"
    assert found.at_ms > 1_000_000 and found.error is None
    assert found.details == {"to": "x" * 250}


def test_whoever_pauses_a_part_of_a_project_is_told_under_the_name_the_broker_knows(
    broker: Serving, log: Log
) -> None:
    """What stood in the project's own file alone went with its five hundredth successor."""
    tell_of_part(log, "capture shop", "pause", "User:ann")
    tell_of_part(log, "capture shop", "resume", "User:ann")
    found = [each for each in newest(log, 10) if each.kind == "part"]
    assert sorted(each.what for each in found) == ["pause", "resume"]
    assert {(each.name, each.who) for each in found} == {
        ("capture shop", "User:ann, by User:ANONYMOUS")
    }


def test_what_does_not_fit_is_counted_and_the_request_is_answered(
    broker: Serving, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trail, "WAITING_BYTES_MAX", 0)
    topics.create(log.admin, "orders", 1)
    assert broker.call(lambda: broker.broker.health.subjects()["audit"]) == {"lost": 1}


def test_nothing_that_a_client_sends_keeps_a_change_out(broker: Serving, log: Log) -> None:
    """A part that nobody understands beside one that is done."""
    broker.create("orders")
    with broker.wire() as wire:
        done = {"name": "retention.ms", "config_operation": 0, "value": "1"}
        strange = {"name": "retention.ms", "config_operation": 9, "value": "1"}
        asked = [
            {"resource_type": 2, "resource_name": "x", "configs": [strange]},
            {"resource_type": 2, "resource_name": "orders", "configs": [done]},
            {"resource_type": 99, "resource_name": "y", "configs": [strange]},
        ]
        answer = wire.ask("incremental_alter_configs", 1, resources=asked)
        assert [row.error_code == 0 for row in answer.responses] == [False, True, False]
    found = written(log, 4)[1:]
    assert [(e.kind, e.name, e.error is None) for e in found] == [
        ("topic", "x", False),
        ("topic", "orders", True),
        ("99", "y", False),
    ]
    assert found[1].details == {"configs": {"retention.ms": "1"}}


def test_a_thing_that_a_request_names_twice_has_an_outcome_for_each(
    broker: Serving, log: Log
) -> None:
    """Else a second, impossible one would make the first look refused."""
    broker.create("orders")
    with broker.wire() as wire:
        produce(wire, "orders", batch())
        parts = [{"partition_index": 0, "offset": offset} for offset in (1, 99)]
        wire.ask("delete_records", 2, topics=[{"name": "orders", "partitions": parts}], timeout=9)
    found = written(log, 3)[1:]
    assert [(e.details["before_offset"], e.error) for e in found] == [
        (1, None),
        (99, "OFFSET_OUT_OF_RANGE"),
    ]


def tell(broker: Serving, how: Callable[[MayTell], Iterator[Change]]) -> None:
    context = Context(0, "c", "h")
    broker.call(lambda: broker.broker.trail.tell("Api", how, context))


def test_what_cannot_be_described_is_told_as_that_and_what_came_before_it_too(
    broker: Serving, log: Log
) -> None:
    def broken(_: MayTell) -> Iterator[Change]:
        yield Change("create", "topic", "orders")
        raise RecursionError("whatever it is")

    tell(broker, broken)
    first, second = written(log, 2)
    assert (first.name, second.name) == ("orders", "cannot be described")
    assert "whatever it is" in str(second.details["because"]) and second.principal


def test_one_part_that_cannot_be_described_is_told_as_that_and_the_others_as_they_are() -> None:
    def change(part: object, _: object) -> Change:
        return Change("create", "topic", {"good": "orders"}[str(part)])

    how = Description(lambda *_: iter([("bad", {}), ("good", {})]), change)
    found = list(described(how, None, {}, lambda _: True))
    assert [each.name for each in found] == ["cannot be described", "orders"]


def test_a_handler_that_fails_half_way_is_told(
    broker: Serving, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create("orders")
    written(log, 1)

    async def offsets_erased(name: str) -> None:
        raise RuntimeError("after the topic is gone")

    monkeypatch.setattr(broker.broker.groups.removal, "offsets_erased", offsets_erased)
    with broker.wire() as wire, pytest.raises(ConnectionClosed):
        delete(wire, "orders")
    assert "orders" not in broker.broker.catalogue.topics
    last = written(log, 2)[-1]
    assert (last.what, last.error) == ("change", "UNKNOWN_SERVER_ERROR")


# ---- bounds -----------------------------------------------------------------------------------------


def test_a_refused_request_of_megabytes_is_a_short_line(broker: Serving, log: Log) -> None:
    long = "\x01" * 32_000
    configs = [{"name": f"{number}{long}", "value": long} for number in range(90)]
    asked = {"name": long, "num_partitions": 1, "replication_factor": 1, "configs": configs}
    with broker.wire() as wire:
        answer = wire.ask("create_topics", 7, topics=[asked], timeout=9, validate_only=False)
        assert answer.topics[0].error_code != 0
    (found,) = written(log, 1)
    assert found.error == "INVALID_TOPIC_EXCEPTION" and found.details == {"partitions": 1}
    assert found.name.endswith("… (32000 characters)")
    assert broker.log(CHANGES).size() < 4096


@pytest.mark.parametrize("letter", ["x", "\x01", "\ud800", "😀", '"', "\\"])
def test_whatever_is_in_a_line_it_is_no_longer_than_it_may_be(letter: str) -> None:
    long = letter * 40_000
    names = ("api", "what", "kind", "name", "principal", "client_id")
    details = {
        "configs": {f"{number}{long}": {"append": long} for number in range(500)},
        "topics": [long] * 500,
        long: long,
    }
    found = limits.line({**dict.fromkeys(names[3:], long), "error": "E", "details": details})
    assert len(found) <= limits.LINE_BYTES_MAX
    assert json.loads(found)["details"]["cut"].startswith('{"configs": {"0')


def test_of_many_things_the_first_are_told_and_the_rest_is_counted() -> None:
    few = limits.bounded({"configs": dict.fromkeys(map(str, range(100)), 1), "topics": ["t"] * 99})
    assert isinstance(few, dict)
    assert len(few["configs"]) == limits.ITEMS_MAX + 2 and few["configs"]["and more"] == 35
    assert few["topics"][-1] == "and 34 more"
    assert limits.bounded(float("nan")) == "nan", "which JSON does not have"


def test_many_changes_of_one_request_are_bounded_and_refusals_take_no_room_from_them() -> None:
    refused = {"error_code": 29}
    rows = [("r", refused)] * 5000 + [("d", {})] * (limits.CHANGES_MAX + 7) + [("r", refused)]
    how = Description(lambda *_: iter(rows), lambda *_: Change("create", "topic", "t"))
    asked: list[str] = []

    def never(error: str) -> bool:
        asked.append(error)
        return False

    found = list(described(how, None, {}, never))
    assert len(found) == limits.CHANGES_MAX + 1 and found[-1].name.startswith("7 more")
    assert set(asked) == {"TOPIC_AUTHORIZATION_FAILED"} and len(asked) == 5001


def test_refusals_of_a_principal_beyond_its_rate_are_counted_for_one_line() -> None:
    many = Refusals(0.0)
    told = [many.may_tell("User:eve", "E", 0.0) for _ in range(500)]
    assert told.count(True) == 101 and told[100] and not told[101]
    assert many.may_tell("User:ann", "E", 0.0), "others have their own"
    assert not many.may_tell("User:eve", "LAST", 1.0)
    untold = many.take_untold()
    assert {who: (each.count, each.error) for who, each in untold.items()} == {
        "User:eve": (400, "LAST")
    }
    assert many.take_untold() == {}
    later = [many.may_tell("User:eve", "E", 61.0) for _ in range(50)]
    assert later.count(True) == 10, "a minute later"


def test_refusals_of_ever_new_principals_have_a_rate_and_a_bound_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "PRINCIPALS_MAX", 10)
    many = Refusals(0.0)
    told = [many.may_tell(f"User:{number}", "E", 0.0) for number in range(5000)]
    assert told.count(True) == 10 + 101
    assert set(many.take_untold()) == {limits.OTHERS}
    assert many.may_tell("User:new", "E", 10_000.0), "those who are idle are forgotten"


def test_a_flood_of_refusals_ends_in_one_line_with_their_number(
    broker: Serving, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trail, "UNTOLD_S", 0.05)
    asked = {"name": "no/name", "num_partitions": 1, "replication_factor": 1}
    names = [{**asked, "name": f"no/{number}"} for number in range(150)]
    with broker.wire() as wire:
        wire.ask("create_topics", 7, topics=names, timeout=9, validate_only=False)
    until(
        lambda: any("more refused" in each.name for each in newest(log, 1)),
        "the line that counts them",
    )
    found = newest(log, 500)
    assert found[0].name.startswith("49 more refused") and len(found) == 102
    assert found[0].error == "INVALID_TOPIC_EXCEPTION" and found[0].principal == "User:ANONYMOUS"


def test_a_line_that_cannot_be_written_is_dropped_and_counted_and_the_others_are_written(
    broker: Serving, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = records.build

    def poisoned(some: list[records.Record]) -> bytes:
        if any(b"poison" in (each.value or b"") for each in some):
            raise OverflowError("int too large to convert")
        return build(some)

    monkeypatch.setattr(records, "build", poisoned)
    names = ("first", "poison", "last")
    tell(broker, lambda _: (Change("create", "topic", name) for name in names))
    assert [each.name for each in written(log, 2)] == ["first", "last"]
    assert broker.call(lambda: broker.broker.health.audit_lost) == 1


def test_a_batch_has_a_bound_in_bytes(broker: Serving, log: Log) -> None:
    long = {str(number): "x" * 200 for number in range(60)}
    tell(broker, lambda _: (Change("create", "topic", str(n), long) for n in range(200)))
    until(lambda: broker.call(lambda: not broker.broker.trail._waiting), "all are written")
    partition = broker.broker.partition(CHANGES, 0)
    assert partition is not None
    found = list(broker.broker.topics.replay_from(partition, 0))
    assert len(found) >= 3 and partition.log.next_offset == 200


def test_secrets_in_settings_are_never_repeated() -> None:
    assert changes.shown("ssl.keystore.password", "pw") == "***"
    assert changes.shown("retention.ms", "1") == "1"
    assert changes.shown("ssl.keystore.password", None) is None


def test_a_stop_writes_no_line_twice(data: Path) -> None:
    disk = HandDisk()
    with serving(data, {"audit.enable": True}, files=disk) as broker, broker.wire() as wire:
        create(wire, "first")
        until(lambda: (CHANGES, 0) in broker.broker.topics.partitions, "the topic")
        changed = broker.log(CHANGES)
        until(lambda: changed.durable_offset == 1, "a line")
        with disk.held("sync", f"{CHANGES}-0/*") as held:
            create(wire, "second")
            until(lambda: changed.next_offset == 2, "the next")
            stopping = broker.begin(broker.broker.trail.stop())
            broker.call(lambda: None)
            held.release()
            stopping.result(60)
        assert broker.call(lambda: changed.next_offset) == 2


def test_a_stop_does_not_wait_for_lines_that_were_refused_just_before(data: Path) -> None:
    """Their offsets are taken back: nobody would ever reach them."""
    disk, begun, released = HandDisk(), threading.Event(), threading.Event()

    def refuse(path: Path) -> None:
        begun.set()
        assert released.wait(60)
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    with serving(data, {"audit.enable": True}, files=disk) as broker, broker.wire() as wire:
        create(wire, "first")
        until(lambda: (CHANGES, 0) in broker.broker.topics.partitions, "the topic")
        partition, told = broker.broker.topics.partitions[CHANGES, 0], broker.broker.trail
        until(lambda: partition.log.durable_offset == 1, "a line")
        end = disk.on("write", refuse, f"{CHANGES}-0/*.log")
        create(wire, "second")
        assert begun.wait(60)
        broker.run(broker.broker.supervisor.end(told._task))
        end()
        released.set()
        until(lambda: partition.log.next_offset == 1 and partition.failed is None, "the refusal")
        broker.begin(told.stop()).result(60)
        assert broker.broker.health.audit_lost == 1


def test_a_topic_made_on_first_use_is_a_change_too(data: Path) -> None:
    settings = {"audit.enable": True, "auto.create.topics.enable": True, "num.partitions": 2}
    with serving(data, settings) as broker, broker.wire() as wire:
        for _ in range(2):
            asked = {"topics": [{"name": "new"}], "allow_auto_topic_creation": True}
            assert wire.ask("metadata", 12, **asked).topics[0].name == "new"
        create(wire, "then")
        with Log(broker.bootstrap) as log:
            first, second = written(log, 2)
        assert (first.what, first.kind, first.name) == ("create", "topic", "new")
        assert first.details == {"partitions": 2, "on_first_use": True}
        assert second.name == "then", "the first is told once"


def test_the_changes_of_a_request_are_bounded_however_it_is_cut(
    broker: Serving, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of more than 250 parts is answered in slices; it is one request all the same."""
    monkeypatch.setattr(description, "CHANGES_MAX", 20)
    broker.create("many", 300)
    with broker.wire() as wire:
        parts = [{"partition_index": n, "offset": 0} for n in range(300)]
        asked = [{"name": "many", "partitions": parts}]
        rows = wire.ask("delete_records", 2, topics=asked, timeout=9000).topics[0].partitions
        assert len(rows) == 300
    found = written(log, 22)
    assert [entry.what for entry in found[1:]] == ["delete records"] * 20 + ["and more"]
    assert found[-1].name == "280 more changes in the same request"
