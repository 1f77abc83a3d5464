"""Where expressions are looked up: not in the event loop, and not where cold reads wait for a thread."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from headwater import regex
from headwater.broker.groups.consumer import topic_regex
from tests.broker.serving import serving
from tests.compat.waiting import until
from tests.compat.wire import ErrorCode, Wire


def slow(number: int) -> str:
    return f"(?i).*[ab](.{{1,30}}){{10}}{number}x"


@pytest.fixture
def in_the_loop(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Steps of every look at names that was too much for the event loop, and was done there."""
    found: list[int] = []
    matching = regex.Regex.matching

    def watched(self: regex.Regex, names: Any) -> list[str]:
        listed = list(names)
        steps = self.steps(listed)
        if "broker-under-test" in threading.current_thread().name and (
            steps > regex.STEPS_AT_ONCE_MAX
        ):
            found.append(steps)
        return matching(self, listed)

    monkeypatch.setattr(regex, "WORK_S", 60.0)  # however busy the machine is
    monkeypatch.setattr(regex.Regex, "matching", watched)
    return found


def beat(wire: Wire, group: str, member: str, **more: Any) -> Any:
    return wire.ask(
        "consumer_group_heartbeat",
        1,
        group_id=group,
        member_id=member,
        rebalance_timeout=60_000,
        topic_partitions=[],
        **more,
    )


def many_topics(wire: Wire) -> None:
    topics = [
        {"name": f"{n}-".ljust(100, "b"), "num_partitions": 1, "replication_factor": 1}
        for n in range(50)
    ]
    wire.ask("create_topics", 7, topics=topics, timeout=9000)


def test_a_group_of_many_expressions_is_not_looked_up_in_the_event_loop(
    data: Path, in_the_loop: list[int]
) -> None:
    with serving(data) as running, running.wire() as wire:
        many_topics(wire)
        for number in range(70):
            answer = beat(
                wire, "g", f"m{number}", member_epoch=0, subscribed_topic_regex=slow(number)
            )
            assert answer.error_code is ErrorCode.none, answer
        assert not in_the_loop
        running.create("one.more")
        beat(wire, "g", "m0", member_epoch=0, subscribed_topic_regex=slow(0))
        assert not in_the_loop, f"{len(in_the_loop)} looks"


def test_an_authorizer_does_not_look_up_expressions_in_the_event_loop(
    data: Path, in_the_loop: list[int]
) -> None:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": True,
    }
    with serving(data, settings) as running, running.wire() as wire:
        many_topics(wire)
        beat(wire, "g", "m", member_epoch=0, subscribed_topic_regex=slow(101))
        assert not in_the_loop


def test_expressions_are_not_looked_up_where_cold_reads_wait_for_a_thread(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """60 strangers with one heartbeat each kept the four threads of all cold reads busy for 11 s."""
    where: list[str] = []
    matching = regex.Regex.matching

    def watched(self: regex.Regex, names: Any) -> list[str]:
        where.append(threading.current_thread().name)
        return matching(self, names)

    monkeypatch.setattr(regex.Regex, "matching", watched)
    with serving(data) as running, running.wire() as wire:
        many_topics(wire)
        beat(wire, "g", "m", member_epoch=0, subscribed_topic_regex=slow(102))
        assert where
        assert all(name.startswith("headwater-expression") for name in where)


def test_nothing_is_looked_up_for_who_is_no_member(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []
    matching = regex.Regex.matching

    def watched(self: regex.Regex, names: Any) -> list[str]:
        looks.append(threading.current_thread().name)
        return matching(self, names)

    monkeypatch.setattr(regex.Regex, "matching", watched)
    with serving(data) as running, running.wire() as wire:
        many_topics(wire)
        beat(wire, "g", "m", member_epoch=0, subscribed_topic_names=["t"])
        answer = beat(wire, "g", "stranger", member_epoch=7, subscribed_topic_regex=slow(99))
        assert answer.error_code is ErrorCode.unknown_member_id
        assert not looks


def test_expressions_of_a_group_that_was_loaded_are_looked_up_in_the_thread(
    data: Path, in_the_loop: list[int]
) -> None:
    with serving(data) as running, running.wire() as wire:
        many_topics(wire)
        for number in range(70):
            beat(wire, "g", f"m{number}", member_epoch=0, subscribed_topic_regex=slow(number))
    topic_regex.compiled.cache_clear()
    topic_regex._known.clear()
    with serving(data) as running, running.wire() as wire:
        name = "1-" + "b" * 60 + "0x"
        running.create(name)

        def is_seen() -> bool:
            """By the next heartbeat where a topic (the broker's own) was made while one was looked for."""
            answer = beat(wire, "g", "m0", member_epoch=0, subscribed_topic_regex=slow(0))
            assert answer.error_code is ErrorCode.none, answer
            return running.broker.groups.groups["g"].regexes[slow(0)].topics == {name}

        until(is_seen, "the topic in the expression's")
        assert not in_the_loop
