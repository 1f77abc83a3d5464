"""Passwords are checked one at a time, and a crowd from one address does not keep the others waiting."""

from __future__ import annotations

import asyncio

import pytest

from headwater import fair_queue
from headwater.fair_queue import Busy, Circle, FairQueue, Line, network


async def test_addresses_take_turns() -> None:
    line, order, gate = FairQueue(), list[str](), asyncio.Event()

    async def check(address: str) -> None:
        async with line.turn(address):
            await gate.wait()
            order.append(address)

    tasks = [asyncio.create_task(check("stranger")) for _ in range(5)]
    tasks.append(asyncio.create_task(check("friend")))
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(*tasks)
    assert order.index("friend") <= 2, order


async def test_who_goes_away_leaves_its_place_and_who_is_next_goes_on() -> None:
    line, gate = FairQueue(), asyncio.Event()

    async def check() -> None:
        async with line.turn("one"):
            await gate.wait()

    first, second, third = (asyncio.create_task(check()) for _ in range(3))
    await asyncio.sleep(0)
    second.cancel()
    first.cancel()
    await asyncio.wait([first, second])
    gate.set()
    await asyncio.wait_for(third, 30)
    assert not line._waiting and not line._taken


async def test_an_address_has_a_few_places_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_queue, "WAITING_MAX", 2)
    line, gate = FairQueue(), asyncio.Event()

    async def check() -> None:
        async with line.turn("one"):
            await gate.wait()

    tasks = [asyncio.create_task(check()) for _ in range(4)]
    await asyncio.sleep(0)
    gate.set()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each) for each in found].count(Busy) == 1


async def test_few_addresses_cannot_take_all_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_queue, "TOTAL_MAX", 3)
    line, gate = FairQueue(), asyncio.Event()

    async def check(address: str) -> None:
        async with line.turn(address):
            await gate.wait()

    addresses = ["one"] * 5 + ["two"]
    tasks = [asyncio.create_task(check(address)) for address in addresses]
    await asyncio.sleep(0)
    gate.set()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each) for each in found] == [type(None)] * 4 + [Busy] + [type(None)]
    assert not line._waiting


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("10.0.0.1", "10.0.0.2", False),
        ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("unknown", "10.0.0.1", False),
    ],
)
def test_an_ipv6_client_counts_by_its_network(one: str, other: str, same: bool) -> None:
    assert (network(one) == network(other)) is same


def test_what_is_little_waits_for_one_that_is_much_and_not_for_all() -> None:
    circle: Circle[str] = Circle()
    for number in range(200):
        circle.add("one", f"much {number}", 50_000_000)
    circle.add("one", "little", 1_000)
    circle.add("two", "other", 50_000_000)
    assert [circle.take() for _ in range(4)] == ["much 0", "other", "little", "much 1"]
    assert circle.waiting("one") == len(circle) == 198
    assert circle.discard("one", "much 5")
    assert not circle.discard("one", "much 5")
    while circle:
        assert circle.first == circle.take()
    assert not circle.addresses


def test_who_had_least_comes_first_and_nobody_waits_for_ever() -> None:
    line: Line[str] = Line()
    for number in range(200):
        line.add(f"busy {number}", 10.0 + number)
    line.add("light", 0.0)
    assert line.take() == "light"
    line.add("busy again", 0.1)
    taken = [line.take() for _ in range(4)]
    assert taken == ["busy 0", "busy again", "busy 1", "busy 2"]
    for _ in range(1000):  # however many of them come
        line.add("light", 0.0)
        taken += [line.take()]
    assert {f"busy {number}" for number in range(200)} <= {*taken}
    assert len(line._by_share) <= 2 * len(line) + 17
    left = len(line)
    assert len([line.take() for _ in range(left)]) == left
    assert not len(line)
