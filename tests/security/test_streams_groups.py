"""Streams groups behind an authorizer: Read on the group, Describe on topics, Create for internal ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.broker.security.acls import Acl
from tests.broker.serving import Serving, serving
from tests.compat.streaming import (
    NO_INTERNAL,
    Streaming,
    codes,
    counting,
    described,
    subtopology,
    topic,
)
from tests.compat.wire import ErrorCode, Wire
from tests.security.test_assignments import (
    ALLOW,
    DESCRIBE,
    EVERYBODY,
    GROUP,
    LITERAL,
    PREFIXED,
    READ,
    TOPIC,
    allow,
    forbid,
)

CREATE = 5
ON_GROUP = Acl(GROUP, "app", LITERAL, *EVERYBODY, READ, ALLOW)
ON_SOURCE = Acl(TOPIC, "lines", LITERAL, *EVERYBODY, DESCRIBE, ALLOW)
ON_INTERNAL = Acl(TOPIC, "app-", PREFIXED, *EVERYBODY, DESCRIBE, ALLOW)
MAY_CREATE = Acl(TOPIC, "app-", PREFIXED, *EVERYBODY, CREATE, ALLOW)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Serving]:
    at_once = dict.fromkeys(("initial.rebalance.delay.ms", "assignment.interval.ms"), 0)
    settings = {f"group.streams.{name}": value for name, value in at_once.items()}
    with serving(tmp_path / "data", {"authorizer.class.name": "acl", **settings}) as running:
        running.run(running.broker.topics.create("lines", 2, {}))
        yield running


@pytest.fixture
def wire(broker: Serving) -> Iterator[Wire]:
    with broker.wire() as connection:
        yield connection


def test_a_member_needs_the_group_its_topics_and_leave_to_make_them(
    broker: Serving, wire: Wire
) -> None:
    member = Streaming(wire, "app", "m", counting("lines", "app"))
    assert member.join().error_code is ErrorCode.group_authorization_failed
    allow(broker, ON_GROUP)
    assert member.join().error_code is ErrorCode.topic_authorization_failed
    allow(broker, ON_SOURCE)
    assert member.join().error_code is ErrorCode.topic_authorization_failed
    allow(broker, ON_INTERNAL)
    answer = member.join()
    assert codes(answer) == [NO_INTERNAL]
    assert answer.status[0].status_detail.endswith(
        "; Unauthorized to CREATE on topics app-words-repartition, app-counts-changelog."
    )
    assert not {"app-words-repartition", "app-counts-changelog"} & set(
        broker.broker.catalogue.topics
    )
    allow(broker, MAY_CREATE)
    assert codes(member.beat()) == [NO_INTERNAL], "they are made now"
    assert codes(member.beat()) == []
    assert member.active == {"0": [0, 1], "1": [0, 1]}


def test_a_group_is_not_described_to_who_may_not_see_its_topics(
    broker: Serving, wire: Wire
) -> None:
    for acl in (ON_GROUP, ON_SOURCE, ON_INTERNAL, MAY_CREATE):
        allow(broker, acl)
    Streaming(wire, "app", "m", counting("lines", "app")).join()
    assert described(wire, "app").topology is not None
    forbid(broker, ON_SOURCE)
    hidden = described(wire, "app")
    assert hidden.error_code is ErrorCode.topic_authorization_failed
    assert (hidden.topology, hidden.members) == (None, ())
    forbid(broker, ON_GROUP)
    assert described(wire, "app").error_code is ErrorCode.group_authorization_failed


def test_of_many_topics_that_may_not_be_made_some_are_named(broker: Serving, wire: Wire) -> None:
    for acl in (ON_GROUP, ON_SOURCE, ON_INTERNAL):
        allow(broker, acl)
    changelogs = [topic(f"app-{number}") for number in range(200)]
    topology = {"epoch": 0, "subtopologies": [subtopology("0", ["lines"], changelogs=changelogs)]}
    (status,) = Streaming(wire, "app", "m", topology).join().status
    assert status.status_detail.endswith(
        "; Unauthorized to CREATE on topics app-0, app-1, app-2 and 197 additional topics."
    )


def test_a_topology_of_many_topics_is_looked_at_whole(broker: Serving, wire: Wire) -> None:
    for acl in (ON_GROUP, ON_SOURCE, ON_INTERNAL):
        allow(broker, acl)
    hidden = [topic(f"app-{number}") for number in range(200)] + [topic("z")]
    topology = {"epoch": 0, "subtopologies": [subtopology("0", ["lines"], changelogs=hidden)]}
    answer = Streaming(wire, "app", "m", topology).join()
    assert answer.error_code is ErrorCode.topic_authorization_failed
