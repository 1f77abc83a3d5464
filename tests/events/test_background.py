"""What runs beside the commands goes on after a failure, which is logged and counted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer

from headwater.events import membership, watch
from headwater.events.membership import Membership
from headwater.events.watch import Watch


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


class Faulty:
    """A member whose first word to the group is an error of ours."""

    def __init__(self) -> None:
        self.asked = 0
        self.partitions: list[int] = []
        self.heard: list[Any] = []

    def assigned(self, partitions: list[int]) -> None:
        self.partitions += partitions

    async def released(self, partitions: list[int], lost: bool) -> None: ...

    def forgotten(self, partitions: list[int]) -> None: ...

    def arrived(self, messages: list[Any]) -> None:
        self.heard += messages

    def to_commit(self) -> dict[int, int]:
        self.asked += 1
        if self.asked == 1:
            raise RuntimeError("dictionary changed size during iteration")
        return {}

    def committed(self, offsets: dict[int, int]) -> None: ...


def test_a_member_that_fails_once_stays_a_member(
    name: str,
    bootstrap: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(membership, "AGAIN_S", 0.01)
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(name, b"first")
    assert producer.flush(60) == 0

    async def scenario() -> None:
        member = Faulty()
        loop = asyncio.get_running_loop()
        settings = {"bootstrap.servers": bootstrap}
        joined = Membership(settings, name, f"{name}-owners", 6000, member, loop)
        await until(lambda: bool(member.heard))
        assert member.partitions and joined.failures == 1
        await joined.leave()

    asyncio.run(scenario())
    assert any(record.exc_info for record in caplog.records), "the traceback is missing"


def test_a_look_for_the_end_that_fails_is_not_the_last(
    name: str, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "EVERY_S", 0.01)

    async def scenario() -> None:
        looks = 0

        def ends(_: Any, __: Any) -> dict[int, int]:
            nonlocal looks
            looks += 1
            raise KeyError("an error of ours")

        monkeypatch.setattr(Watch, "_ends", ends)
        watching = Watch(name, {"bootstrap.servers": bootstrap}, {})
        await until(lambda: looks > 2)
        assert watching.failures >= 2
        await watching.stop()

    asyncio.run(scenario())
