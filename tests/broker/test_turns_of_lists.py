"""What one turn of the event loop does for a list must not grow with what there is, be it behind ACLs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kio.index import load_request_schema

from headwater.broker.groups.offsets import OffsetValue
from headwater.broker.registry import load_apis
from headwater.broker.security.acls import EVERYBODY, Acl
from headwater.broker.security.authorizer import _name
from headwater.broker.transactions.transaction import Transaction
from tests.broker.serving import Serving, serving
from tests.broker.test_turns_of_apis import FEW, MANY, longest_turn
from tests.compat.wire import build

LIST_GROUPS, LIST_TRANSACTIONS, OFFSET_FETCH, DESCRIBE_ACLS, DELETE_ACLS = 16, 66, 9, 29, 31
DESCRIBE_LOG_DIRS, INIT_PRODUCER_ID = 35, 22
WRITE, DENY, ALLOW = 4, 2, 3
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "",
}
EVERY = {
    "resource_type_filter": 1,
    "pattern_type_filter": 1,
    "operation": 1,
    "permission_type": 1,
    "resource_name_filter": None,
    "principal_filter": None,
    "host_filter": None,
}
ASKED: dict[int, dict[str, Any]] = {
    LIST_GROUPS: {},
    LIST_TRANSACTIONS: {"duration_filter": -1},
    OFFSET_FETCH: {"groups": [{"group_id": "g0", "member_epoch": -1, "topics": None}]},
    DESCRIBE_ACLS: EVERY,
    DELETE_ACLS: {"filters": [{**EVERY, "principal_filter": "User:nobody"}]},
    INIT_PRODUCER_ID: {"transactional_id": None, "producer_id": -1, "producer_epoch": -1},
}


@pytest.fixture(scope="module", params=[{}, AUTHORIZER], ids=["open", "behind ACLs"])
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Serving]:
    folder: Path = tmp_path_factory.mktemp("lists")
    with serving(folder / "data", request.param) as running:
        yield running


def fill(broker: Serving, count: int) -> None:
    """So many groups, offsets, ids and permissions, as if clients had made them."""
    coordinator, transactions = broker.broker.groups, broker.broker.transactions.transactions
    offsets = coordinator.offsets_of("g0")
    for number in range(count):
        if f"g{number}" not in coordinator.groups:
            coordinator._core.create_classic(f"g{number}")
        offsets.count((f"t{number % 3}", number), OffsetValue(5, -1, "", 0))
        transactions[f"x{number}"] = Transaction(f"x{number}", number)
        if broker.broker.authorizer is not None:
            ann = Acl(2, f"name{number}", 3, "User:ann", "*", 3, 3)
            allowed = Acl(2, f"name{number}", 3, EVERYBODY, "*", WRITE, ALLOW)
            for acl in (ann, allowed, allowed._replace(permission=DENY)):
                broker.broker.authorizer._apply(_name(acl), {})


@pytest.mark.parametrize("key", sorted(ASKED))
def test_no_turn_grows_with_what_there_is(broker: Serving, key: int) -> None:
    version = load_apis()[key].versions[1]
    request = build(load_request_schema(key, version), ASKED[key], lenient=True)
    turns = []
    for count in (FEW, MANY):
        broker.call(lambda count=count: fill(broker, count))  # type: ignore[misc]
        turns.append(longest_turn(broker, key, version, request))
    few, many = turns
    assert many <= 1.5 * few or many < MANY, f"{few} calls for {FEW}, {many} for {MANY}"


def test_no_turn_of_describe_log_dirs_grows_with_the_partitions(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = load_apis()[DESCRIBE_LOG_DIRS].versions[1]
    request = build(load_request_schema(DESCRIBE_LOG_DIRS, version), {"topics": None}, lenient=True)
    with serving(data) as broker:
        broker.create("t")
        partition = broker.broker.partition("t", 0)
        turns = []
        for count in (FEW, MANY):
            many = {("t", number): partition for number in range(count)}
            with monkeypatch.context() as patch:
                patch.setattr(broker.broker.topics, "partitions", many)
                turns.append(longest_turn(broker, DESCRIBE_LOG_DIRS, version, request))
    few, most = turns
    assert most <= 1.5 * few or most < MANY, f"{few} calls for {FEW}, {most} for {MANY}"
