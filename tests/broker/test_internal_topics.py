"""The broker's own names: reserved on every way in, written by their owners, kept as their owners need."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from headwater.broker import internal_topics
from headwater.broker.internal_topics import (
    AUDIT,
    CATALOGUE,
    CHANGES,
    CONSUMER_OFFSETS,
    EXCISIONS,
    HEALTH,
    KAFKAS,
    SHARE_GROUP_STATE,
    TABLE,
    TESTIMONY,
    TRANSACTION_STATE,
)
from tests.broker.serving import Serving, create, delete, serving
from tests.compat.asking import end_offset, find_coordinator, produce, produce_request, read_all
from tests.compat.batches import TRANSACTIONAL, batch
from tests.compat.transacting import Transactor
from tests.compat.wire import ErrorCode, Wire

SOURCE = Path(internal_topics.__file__).parents[1]
AUTO = {"auto.create.topics.enable": True}
SUPERUSER = {"authorizer.class.name": "acl", "super.users": "User:ANONYMOUS"}
REFUSED = ErrorCode.invalid_topic_exception
COMPACTED = {"cleanup.policy": "compact"}


def ask_to_create(wire: Wire, name: str, validate_only: bool = False, **configs: str) -> Any:
    pairs = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    asked = {"name": name, "num_partitions": 1, "replication_factor": 1, "configs": pairs}
    answer = wire.ask("create_topics", 7, topics=[asked], timeout=9000, validate_only=validate_only)
    return answer.topics[0]


def ask_for_metadata(wire: Wire, name: str) -> ErrorCode:
    asked = {"topics": [{"name": name}], "allow_auto_topic_creation": True}
    return wire.ask("metadata", 9, **asked).topics[0].error_code


@pytest.mark.parametrize("settings", [AUTO, {**AUTO, **SUPERUSER}], ids=["open", "superuser"])
@pytest.mark.parametrize(
    "name",
    [
        CATALOGUE,
        "__cluster_metadata",
        "__headwater_mine",
        "__headwater.audit",
        "__consumer.offsets",
    ],
)
def test_a_reserved_name_is_refused_on_every_way_in_and_nothing_is_touched(
    data: Path, name: str, settings: dict[str, object]
) -> None:
    with serving(data, settings) as broker, broker.wire() as wire:
        create(wire, "t")
        produce(wire, "t", batch())
        assert ask_to_create(wire, name).error_code is REFUSED
        assert ask_to_create(wire, name, validate_only=True).error_code is REFUSED
        assert ask_for_metadata(wire, name) is REFUSED
        assert produce(wire, name, batch()).error_code is ErrorCode.unknown_topic_or_partition
        grown = {"name": name, "count": 3, "assignments": None}
        answer = wire.ask("create_partitions", 3, topics=[grown], timeout=9000)
        assert answer.results[0].error_code is ErrorCode.unknown_topic_or_partition
        assert delete(wire, name) is ErrorCode.unknown_topic_or_partition
        create(wire, "after")
    with serving(data, settings) as broker, broker.wire() as wire:
        assert len(read_all(wire, "t")) == 1
        assert end_offset(wire, "after") == 0
        assert not list(data.glob("*-delete"))
        assert not list(data.glob("*-stray"))


def test_a_catalogue_that_already_has_a_topic_of_its_own_name_is_read_without_it(
    data: Path,
) -> None:
    with serving(data) as broker, broker.wire() as wire:
        create(wire, "t")
        produce(wire, "t", batch())
        value = {"id": "00000000-0000-0000-0000-000000000001", "partitions": 1, "configs": {}}
        broker.run(broker.broker.catalogue._write(f"topic/{CATALOGUE}", value))
    with serving(data) as broker, broker.wire() as wire:
        assert len(read_all(wire, "t")) == 1
        assert CATALOGUE not in broker.broker.catalogue.topics


def test_the_right_to_create_topics_is_no_right_to_create_those_that_steer_the_broker(
    data: Path,
) -> None:
    free = {**AUTO, **SUPERUSER}
    cluster = {
        "resource_type": 4,
        "resource_name": "kafka-cluster",
        "resource_pattern_type": 3,
        "principal": "User:ANONYMOUS",
        "host": "*",
        "permission_type": 3,
    }
    create_only = [{**cluster, "operation": operation} for operation in (5, 8)]
    describe = {**cluster, "resource_type": 2, "resource_name": "*", "operation": 8}
    with serving(data, free) as broker, broker.wire() as wire:
        wire.ask("create_acls", 3, creations=[*create_only, describe])
    bound = {**AUTO, "authorizer.class.name": "acl"}
    with serving(data, bound) as broker, broker.wire() as wire:
        assert ask_to_create(wire, "t").error_code is ErrorCode.none
        for name in (EXCISIONS, CATALOGUE):
            refused = ErrorCode.topic_authorization_failed
            assert ask_to_create(wire, name).error_code is refused
            assert ask_for_metadata(wire, name) is refused
        assert set(broker.broker.catalogue.topics) == {"t"}


def test_every_name_that_headwater_uses_is_in_the_table() -> None:
    used = {
        name
        for path in SOURCE.rglob("*.py")
        for name in re.findall(r'"(__headwater_[a-z_]+)"', path.read_text())
    }
    assert used
    unknown = {name for name in used if name != CATALOGUE and internal_topics.find(name) is None}
    assert unknown == set()
    assert internal_topics.find("__headwater_shop_requests") is not None
    assert internal_topics.find("__headwater_shop_keys") is not None


@pytest.mark.parametrize("name", TABLE)
def test_only_the_owner_writes(data: Path, name: str) -> None:
    with serving(data) as broker, broker.wire() as wire:
        assert ask_to_create(wire, name).error_code is ErrorCode.none
        expected = ErrorCode.none if TABLE[name].clients_write else REFUSED
        assert produce(wire, name, batch()).error_code is expected


OWN = sorted(name for name, row in TABLE.items() if not row.clients_write)


def test_no_transaction_of_a_client_leaves_a_marker_where_it_may_not_write(data: Path) -> None:
    with serving(data) as broker, broker.wire() as wire:
        create(wire, "mine")
        for name in OWN:
            ask_to_create(wire, name)
        client = Transactor(wire, "client").init()
        for name in OWN:
            assert client.add(name, 0) is REFUSED, name
        both = [produce_request(name, b"", 0) for name in OWN]
        rows = [row for asked in both for row in asked["topic_data"]]
        data_of = batch(producer=(client.id, client.epoch, 0), attributes=TRANSACTIONAL)
        rows += produce_request("mine", data_of)["topic_data"]
        asked = {"acks": -1, "timeout": 5000, "topic_data": rows}
        wire.ask("produce", 12, transactional_id="client", **asked)
        known = broker.call(lambda: broker.broker.transactions.transactions["client"])
        assert known.partitions == {("mine", 0)}


# ---- configs ----------------------------------------------------------------------------------------


def own_configs(broker: Serving, name: str) -> dict[str, str]:
    return broker.call(lambda: dict(broker.broker.catalogue.topics[name].configs))


@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if row.fixed])
def test_however_an_internal_topic_is_created_it_gets_what_its_owner_relies_on(
    tmp_path: Path, name: str
) -> None:
    fixed = dict(TABLE[name].fixed)
    with serving(tmp_path / "metadata", AUTO) as broker, broker.wire() as wire:
        assert ask_for_metadata(wire, name) is ErrorCode.none
        assert own_configs(broker, name).items() >= fixed.items()
        wanted = TABLE[name].count(broker.broker.settings)
        assert broker.broker.catalogue.topics[name].partitions == wanted
    with serving(tmp_path / "create") as broker, broker.wire() as wire:
        wrong = {"cleanup_policy": "compact,delete", "retention_ms": "1000"}
        answer = ask_to_create(wire, name, **wrong)
        assert answer.error_code is ErrorCode.none
        assert own_configs(broker, name).items() >= fixed.items()
        shown = {each.name: each.value for each in answer.configs}
        assert shown.items() >= fixed.items(), "the answer tells what it is"


def test_coordinators_make_their_topics_with_the_same_configs(data: Path) -> None:
    with serving(data) as broker, broker.wire() as wire:
        find_coordinator(wire, "g")
        broker.run(broker.broker.offsets_topic.ensure())
        broker.run(broker.broker.transactions._store.ensure())
        broker.run(broker.broker.shares.states.ensure())
        for name in KAFKAS:
            assert own_configs(broker, name).items() >= dict(TABLE[name].fixed).items()
        assert broker.log(TRANSACTION_STATE).config.compact
        assert not broker.log(TRANSACTION_STATE).config.delete
        assert broker.log(SHARE_GROUP_STATE).config.retention_ms == -1


def test_clients_are_told_that_what_speaks_of_this_broker_is_internal(data: Path) -> None:
    with serving(data) as broker, broker.wire() as wire:
        create(wire, "orders")
        ask_to_create(wire, HEALTH)
        answer = wire.ask("metadata", 9, topics=None, allow_auto_topic_creation=False)
        told = {topic.name: topic.is_internal for topic in answer.topics}
        assert told.items() >= {"orders": False, HEALTH: True}.items()


def test_a_topic_that_exists_with_other_configs_is_put_right_at_the_next_start(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(data) as broker, broker.wire() as wire:
        create(wire, "t", cleanup_policy="delete")
        for name in (TRANSACTION_STATE, SHARE_GROUP_STATE):
            ask_to_create(wire, name)
            broker.run(broker.broker.catalogue.set_topic_configs(name, {"segment.ms": "77777"}))
    with serving(data) as broker:
        for name in (TRANSACTION_STATE, SHARE_GROUP_STATE):
            expected = {"segment.ms": "77777", **TABLE[name].fixed}
            assert own_configs(broker, name) == expected
            assert f"{name} had other configs than it needs" in caplog.text
        assert broker.log(TRANSACTION_STATE).config.compact
        assert own_configs(broker, "t") == {"cleanup.policy": "delete"}
    with serving(data) as broker:
        assert own_configs(broker, TRANSACTION_STATE)["cleanup.policy"] == "compact"


def test_what_an_owner_relies_on_cannot_be_altered_and_the_rest_can(data: Path) -> None:
    def alter(wire: Wire, name: str, key: str, verb: int, value: str | None) -> ErrorCode:
        change = {"name": key, "config_operation": verb, "value": value}
        asked = {"resource_type": 2, "resource_name": name, "configs": [change]}
        answer = wire.ask("incremental_alter_configs", 1, resources=[asked])
        return answer.responses[0].error_code

    with serving(data) as broker, broker.wire() as wire:
        for name in (*KAFKAS, AUDIT, CHANGES):
            ask_to_create(wire, name)
            before = own_configs(broker, name)
            wrong = ErrorCode.invalid_config
            assert alter(wire, name, "cleanup.policy", 0, "compact,delete") is wrong
            assert alter(wire, name, "cleanup.policy", 1, None) is wrong
            replaced = {"resource_type": 2, "resource_name": name, "configs": []}
            answer = wire.ask("alter_configs", 1, resources=[replaced])
            assert answer.responses[0].error_code is wrong
            assert own_configs(broker, name) == before
            assert alter(wire, name, "segment.ms", 0, "7654321") is ErrorCode.none


def test_topics_whose_records_lie_by_a_hash_do_not_grow(data: Path) -> None:
    with serving(data) as broker, broker.wire() as wire:
        ask_to_create(wire, CONSUMER_OFFSETS)
        grown = {"name": CONSUMER_OFFSETS, "count": 9, "assignments": None}
        answer = wire.ask("create_partitions", 3, topics=[grown], timeout=9000)
        assert answer.results[0].error_code is REFUSED


@pytest.mark.parametrize("name", sorted(internal_topics.KAFKAS))
def test_what_a_coordinator_knows_cannot_be_deleted(data: Path, name: str) -> None:
    with serving(data) as broker, broker.wire() as wire:
        broker.run(broker.broker.topics.ensure(name))
        topic_id = broker.broker.catalogue.topics[name].id
        assert delete(wire, name) is ErrorCode.invalid_topic_exception
        asked = [{"name": None, "topic_id": topic_id}]
        answer = wire.ask("delete_topics", 6, topics=asked, timeout=5000).responses[0]
        assert answer.error_code is ErrorCode.invalid_topic_exception
        assert answer.error_message == (
            f"{name} is all that its coordinator knows; it cannot be deleted."
        )
        assert broker.broker.catalogue.topics[name].id == topic_id


@pytest.mark.parametrize("name", sorted(TESTIMONY))
def test_nobody_takes_away_who_did_what(data: Path, name: str) -> None:
    with serving(data) as broker, broker.wire() as wire:
        broker.run(broker.broker.topics.ensure(name))
        before = own_configs(broker, name)
        topic_id = broker.broker.catalogue.topics[name].id
        assert delete(wire, name) is REFUSED
        asked = {"name": name, "partitions": [{"partition_index": 0, "offset": -1}]}
        answer = wire.ask("delete_records", 2, topics=[asked], timeout=9000)
        assert answer.topics[0].partitions[0].error_code is REFUSED
        shorter = {"name": "retention.ms", "config_operation": 0, "value": "1"}
        resource = {"resource_type": 2, "resource_name": name, "configs": [shorter]}
        answer = wire.ask("incremental_alter_configs", 1, resources=[resource])
        assert answer.responses[0].error_code is ErrorCode.invalid_config
        assert own_configs(broker, name) == before
        assert broker.broker.catalogue.topics[name].id == topic_id
        assert not internal_topics.excisable(name)
