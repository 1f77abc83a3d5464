"""The internal topics of a streams group: whose quota they take, who hears of them, what cannot be made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from headwater.broker import streams_topics
from headwater.broker.groups.streams import partitions
from headwater.browse.audit import newest
from headwater.client.log import Log
from tests.broker.serving import Serving, serving
from tests.compat.streaming import Streaming, counting, subtopology, topic
from tests.compat.waiting import until
from tests.compat.wire import Wire

Begin = Callable[..., tuple[Serving, Wire]]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """A broker with a topic `lines`."""
    with ExitStack() as stack:

        def begin(partitions: int = 2, **settings: Any) -> tuple[Serving, Wire]:
            named = {name.replace("_", "."): value for name, value in settings.items()}
            broker = stack.enter_context(serving(tmp_path / "data", named))
            broker.run(broker.broker.topics.create("lines", partitions, {}))
            return broker, stack.enter_context(broker.wire())

        yield begin


def stateful(*changelogs: str, **said: Any) -> dict[str, Any]:
    found = [topic(name) for name in changelogs]
    return {"epoch": 0, "subtopologies": [subtopology("0", ["lines"], changelogs=found, **said)]}


def details(answer: Any) -> str:
    return " ".join(each.status_detail for each in answer.status)


def test_they_take_the_members_quota_and_come_with_a_later_heartbeat(begin: Begin) -> None:
    broker, wire = begin(partitions=8)
    quota = {
        "entity": [{"entity_type": "client-id", "entity_name": "wire"}],
        "ops": [{"key": "controller_mutation_rate", "value": 1.0, "remove": False}],
    }
    assert not wire.ask("alter_client_quotas", entries=[quota]).entries[0].error_code
    member = Streaming(wire, "g", "m", stateful("c1", "c2", "c3"))
    answer = member.join()
    assert "; Creation failed: c3 (The throttling quota has been exceeded.)" in details(answer)
    assert {"c1", "c2"} <= set(broker.broker.catalogue.topics)
    assert "c3" not in broker.broker.catalogue.topics
    quota["ops"] = [{"key": "controller_mutation_rate", "value": 0.0, "remove": True}]
    assert not wire.ask("alter_client_quotas", entries=[quota]).entries[0].error_code
    member.beat()
    assert "c3" in broker.broker.catalogue.topics


def test_they_are_changes_that_the_audit_trail_names(begin: Begin) -> None:
    broker, wire = begin(audit_enable=True)
    Streaming(wire, "g", "m", counting("lines", "g")).join()
    with Log(broker.bootstrap) as log:
        until(lambda: len(newest(log, 100)) >= 2, "both topics")
        found = {(e.what, e.kind, e.name): e.details for e in newest(log, 100)}
    assert found == {
        ("create", "topic", f"g-{name}"): {"partitions": 2, "on_first_use": True}
        for name in ("words-repartition", "counts-changelog")
    }


def test_one_with_too_many_partitions_is_named_and_the_others_are_made(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "TASKS_MAX", 20_000)
    broker, wire = begin()
    subtopologies = [
        subtopology("0", ["lines"], sinks=["large", "small"]),
        subtopology("1", repartitions=[topic("large", 15_000)]),
        subtopology("2", repartitions=[topic("small", 2)]),
    ]
    answer = Streaming(wire, "g", "m", {"epoch": 0, "subtopologies": subtopologies}).join()
    assert "; Creation failed: large (Number of partitions must be" in details(answer)
    assert "small" in broker.broker.catalogue.topics


def test_no_more_of_them_are_made_at_once_than_the_bounds_say(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams_topics, "PARTITIONS_AT_ONCE", 5)
    monkeypatch.setattr(streams_topics, "TOPICS_AT_ONCE", 3)
    broker, wire = begin()
    member = Streaming(wire, "g", "m", stateful("c1", "c2", "c3", "c4"))
    member.join()
    there = broker.broker.catalogue.topics
    assert {"c1", "c2", "c3", "c4"} & set(there) == {"c1", "c2"}
    member.beat()
    assert {"c1", "c2", "c3", "c4"} <= set(there)
