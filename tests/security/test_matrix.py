"""Every API, asked by somebody who may not, and by somebody who may: the same answers as Kafka's."""

from __future__ import annotations

import dataclasses
import enum
import time
import uuid
from typing import Any

import pytest

from tests.compat.waiting import PATIENCE_SECONDS, until
from tests.compat.wire import API_KEYS, Wire
from tests.security.conftest import PASSWORD, logged_in, new_user
from tests.security.matrix import ALLOW, CASES, CLUSTER, CLUSTER_NAME, LITERAL, Case, Names
from tests.security.servers import Secured

_COMPARED = ("error_code", "partition_error_code", "topic_config_error_code", "operations", "name")


def outcome(value: Any, names: dict[Any, str], path: str = "") -> list[str]:
    """Errors, bit fields and names of an answer, by the path to each; what a test made is renamed."""
    found: list[str] = []
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            found += outcome(getattr(value, field.name), names, f"{path}.{field.name}")
    elif isinstance(value, tuple):
        shown = [outcome(each, names, f"{path}[]") for each in value]
        found += [line for lines in sorted(shown) for line in lines]
    elif path.endswith(_COMPARED) or path.rsplit(".")[-1] in ("topic", "topic_id", "group_id"):
        if isinstance(value, enum.Enum):
            value = value.name
        found.append(f"{path}={names.get(value, value)}")
    return found


def prepared(server: Secured, mine: str) -> Names:
    ids = {}
    with server.admin() as wire:
        for kind in ("topic", "other"):
            asked = {"name": f"{kind}-{mine}", "num_partitions": 1, "replication_factor": 1}
            answer = wire.ask("create_topics", 7, topics=[asked], timeout=9000).topics[0]
            assert answer.error_code == 0, answer
            ids[kind] = answer.topic_id
        for kind in ids:
            until(lambda kind=kind: _is_served(wire, f"{kind}-{mine}"), "the topic to be served")
        _wake_coordinators(wire, mine)
    return Names(
        f"topic-{mine}",
        f"other-{mine}",
        f"missing-{mine}",
        f"group-{mine}",
        f"transaction-{mine}",
        ids["topic"],
        ids["other"],
    )


def _wake_coordinators(wire: Wire, mine: str) -> None:
    """Kafka makes the topics of its coordinators when somebody asks for the first time."""
    for kind, name in ((0, f"group-{mine}"), (1, f"transaction-{mine}")):

        def found(kind: int = kind, name: str = name) -> bool:
            return wire.ask("find_coordinator", 2, key=name, key_type=kind).error_code == 0

        until(found, "a coordinator")

    def answers() -> bool:
        return wire.ask("offset_fetch", 7, group_id=f"group-{mine}", topics=[]).error_code == 0

    until(answers, "the groups' coordinator to have loaded")


def _is_served(wire: Wire, name: str) -> bool:
    wanted = [{"name": name, "partitions": [{"partition_index": 0, "timestamp": -1}]}]
    answer = wire.ask("list_offsets", 7, replica_id=-1, topics=wanted)
    return answer.topics[0].partitions[0].error_code == 0


def grant(server: Secured, user: str, case: Case, names: Names) -> None:
    creations = [
        {
            "resource_type": kind,
            "resource_name": CLUSTER_NAME if kind == CLUSTER else getattr(names, name),
            "resource_pattern_type": LITERAL,
            "principal": f"User:{user}",
            "host": "*",
            "operation": operation,
            "permission_type": ALLOW,
        }
        for kind, name, operation in case.grants
    ]
    with server.admin() as wire:
        for row in wire.ask("create_acls", 3, creations=creations).results:
            assert row.error_code == 0, row


def asked(server: Secured, user: str, case: Case, names: Names) -> list[str]:
    renamed = {value: key for key, value in dataclasses.asdict(names).items()}
    renamed |= {uuid.UUID(int=0): "no id", None: "no id"}
    with logged_in(server, user) as wire:
        answer = wire.ask(case.api, case.version, **case.request(names))
    lines = outcome(answer, renamed)
    if case.api == "create_topics":  # Kafka makes an id up even if it only validates
        lines = [line for line in lines if ".topic_id=" not in line]
    return lines


@pytest.fixture(scope="module")
def common(ours: Secured, theirs: Secured) -> dict[str, tuple[str, Names]]:
    """On each server, a user who may do nothing, and topics."""
    found = {}
    for server in (ours, theirs):
        mine = uuid.uuid4().hex[:8]
        found[server.target] = (new_user(server, PASSWORD), prepared(server, mine))
    return found


@pytest.mark.parametrize("case", CASES, ids=str)
def test_who_may_do_nothing_gets_kafkas_refusal(case, ours, theirs, common):
    _skip_what_we_lack(case, ours)
    here, there = (asked(each, *_arguments(case, common, each)) for each in (ours, theirs))
    assert here == there


@pytest.mark.parametrize("case", [case for case in CASES if case.grants], ids=str)
def test_who_may_do_it_gets_kafkas_answer(case, ours, theirs, common):
    _skip_what_we_lack(case, ours)
    answers = []
    for server in (ours, theirs):
        names = common[server.target][1]
        user = new_user(server, PASSWORD)
        mine = dataclasses.replace(
            names,
            missing=f"missing-{user}",
            group=f"group-{user}",
            transaction=f"transaction-{user}",
        )
        grant(server, user, case, mine)
        wanted = answers[0] if answers else None
        answers.append(settled(server, user, case, mine, wanted))
    assert answers[0] == answers[1]


def settled(
    server: Secured, user: str, case: Case, names: Names, wanted: list[str] | None
) -> list[str]:
    """Kafka's coordinators and ACLs need a moment: its first answer that does not say so."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        lines = asked(server, user, case, names)
        if wanted is None or lines == wanted or not _unsettled(lines):
            return lines
        if time.monotonic() > deadline:
            return lines
        time.sleep(0.05)  # between two questions


def _unsettled(lines: list[str]) -> bool:
    passing = ("coordinator_not_available", "coordinator_load_in_progress", "not_coordinator")
    return any(line.endswith((*passing, "authorization_failed")) for line in lines)


def _arguments(
    case: Case, common: dict[str, tuple[str, Names]], server: Secured
) -> tuple[Any, ...]:
    user, names = common[server.target]
    return user, case, names


def _skip_what_we_lack(case: Case, ours: Secured) -> None:
    with ours.admin() as wire:
        low, high = wire.versions.get(API_KEYS[case.api], (1, 0))
    if not low <= case.version <= high:
        pytest.skip(f"headwater has no {case.api} version {case.version}")
