"""Where an authorizer is on, no turn of the event loop looks at everything that there is either.

Rules ask for each topic whether a client may see it, so what they cost must grow neither with other people's
ACLs nor, within a turn, with the topics. Work is counted in lines of Python (`test_turns_of_state`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from kio.index import load_request_schema

from headwater.broker.registry import Context, load_apis
from headwater.broker.security.acls import (
    EVERYTHING,
    Acl,
    AclTable,
    Operation,
    Pattern,
    Permission,
    ResourceType,
)
from headwater.broker.security.principal import ANONYMOUS
from tests.broker.serving import Serving, serving
from tests.broker.test_turns_of_state import FREE, watched
from tests.compat.wire import build

FEW, MANY = 40, 160
GROUP, SECRET = "g", "topicsecret"
AT_ONCE = {(68, 1): 20, (75, 1): 20}
"""Lines for each topic: names are matched with an expression in one turn, within a bound of its own; and
those that a request names are handed on together."""
SETTINGS: dict[str, object] = {
    "authorizer.class.name": "acl",
    "super.users": "User:root",
    "durability": "os",
    "group.consumer.assignment.interval.ms": 0,
}


class Place(NamedTuple):
    """A broker as `watched` wants it, with so many topics."""

    serving: Serving
    broker: Any
    count: int

    @property
    def names(self) -> list[str]:
        return [f"topic{number}" for number in range(self.count)]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Place]]:
    with (
        serving(tmp_path_factory.mktemp("few") / "data", SETTINGS) as few,
        serving(tmp_path_factory.mktemp("many") / "data", SETTINGS) as many,
    ):
        found = [Place(few, few.broker, FEW), Place(many, many.broker, MANY)]
        for place in found:
            place.serving.run(_filled(place))
        yield found


async def _filled(place: Place) -> None:
    broker = place.broker
    for beside in (broker.health_topic, broker.excisions, broker.cleaner):
        await beside.stop()
    for name in (*place.names, SECRET):
        await broker.topics.create(name, 1, {})
    for kind in (ResourceType.TOPIC, ResourceType.GROUP):
        await broker.authorizer.add(_acl(ANONYMOUS, kind))
    denied = _acl(ANONYMOUS)._replace(resource_name=SECRET, permission=Permission.DENY)
    await broker.authorizer.add(denied)


def _acl(principal: str, kind: ResourceType = ResourceType.TOPIC) -> Acl:
    rights = (Operation.ALL, Permission.ALLOW)
    return Acl(kind, EVERYTHING, Pattern.LITERAL, principal, EVERYTHING, *rights)


def _asked(place: Place, key: int) -> list[dict[str, Any]]:
    """Whoever subscribes to all is refused because of the last: an assignment is another matter."""
    beat = {"member_epoch": 0, "member_id": "m", "rebalance_timeout": 60_000}
    names = [*place.names, SECRET]
    return {
        3: [{"topics": None, "include_topic_authorized_operations": True}],
        9: [{"groups": [{"group_id": GROUP, "topics": None, "member_epoch": -1}]}],
        68: [
            {
                **beat,
                "group_id": "by-name",
                "subscribed_topic_names": names,
                "topic_partitions": [],
            },
            {
                **beat,
                "group_id": "by-expression",
                "subscribed_topic_names": [],
                "subscribed_topic_regex": "topic.*",
                "topic_partitions": [],
            },
        ],
        75: [
            {"topics": [], "response_partition_limit": 10},
            {
                "topics": [{"name": name} for name in place.names],
                "response_partition_limit": 10,
            },
        ],
        76: [
            {
                "group_id": "shared",
                "member_id": "m",
                "member_epoch": 0,
                "subscribed_topic_names": names,
            }
        ],
    }[key]


@pytest.mark.parametrize(
    ("key", "number"), [(3, 0), (9, 0), (68, 0), (68, 1), (75, 0), (75, 1), (76, 0)]
)
def test_no_turn_of_a_rule_grows_with_the_topics(
    places: list[Place], monkeypatch: pytest.MonkeyPatch, key: int, number: int
) -> None:
    _cut_small(monkeypatch)
    version = load_apis()[key].versions[1]
    seen = []
    for place in places:
        place.serving.run(_committed(place))
        place.broker.authorizer._remembered.clear()
        schema = load_request_schema(key, version)
        request = build(schema, _asked(place, key)[number], lenient=True)
        handle, context = place.broker.apis[key].handle, Context(version, "client", "host")
        begin = lambda: handle(place.broker, request, context)  # noqa: B023, E731
        seen.append(watched(place, lambda: begin))  # type: ignore[arg-type]  # noqa: B023
    few, many = seen
    grows = (many.longest - few.longest) / (MANY - FEW)
    assert many.total > few.total
    allowed = AT_ONCE.get((key, number), FREE)
    assert grows <= allowed, f"{few.longest} lines in the longest turn, then {many.longest}: {many}"


def _cut_small(patch: pytest.MonkeyPatch) -> None:
    """What is looked at without a glance at the clock is less than there is."""
    for module in [each for key, each in sys.modules.items() if key.startswith("headwater.broker")]:
        for name in ("LOOKS_AT_ONCE", "MANY_OFFSETS"):
            if hasattr(module, name):
                patch.setattr(module, name, 10)


async def _committed(place: Place) -> None:
    """A group with an offset in every topic."""
    request = build(
        load_request_schema(8, 9),
        {
            "group_id": GROUP,
            "generation_id_or_member_epoch": -1,
            "topics": [
                {"name": name, "partitions": [{"partition_index": 0, "committed_offset": 0}]}
                for name in place.names
            ],
        },
        lenient=True,
    )
    answer = await place.broker.apis[8].handle(place.broker, request, Context(9, "c", "h"))
    assert {p["error_code"] for t in answer["topics"] for p in t["partitions"]} == {0}


# ---- decisions -----------------------------------------------------------------------------------------


def test_a_decision_costs_the_same_however_many_others_have_acls() -> None:
    counted = []
    for count in (1, 500):
        table = AclTable()
        table.add(_acl(ANONYMOUS))
        for number in range(count):
            table.add(_acl(f"User:{number}"))
        counted.append(len(list(table.about(ResourceType.TOPIC, "orders", ANONYMOUS))))
    assert counted == [1, 1]


def test_what_others_may_do_keeps_everyone_else_out() -> None:
    table = AclTable()
    assert not table.speaks_of(ResourceType.TOPIC, "orders")
    table.add(_acl("User:ann"))
    assert table.speaks_of(ResourceType.TOPIC, "orders")
    assert not list(table.about(ResourceType.TOPIC, "orders", "User:bob"))
    table.remove(_acl("User:ann"))
    assert not table.speaks_of(ResourceType.TOPIC, "orders")
    assert not list(table)
