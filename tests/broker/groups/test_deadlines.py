"""One timer for all groups: each is called once in a turn, whatever it asks for meanwhile."""

from __future__ import annotations

import asyncio

from headwater.broker.groups.deadlines import Deadlines
from headwater.broker.health import Health
from headwater.broker.supervisor import Supervisor

from .desk import HandClock


class Called:
    """Notes who was called, and wakes whom a test names, at a time that has passed."""

    def __init__(self, *wakes: tuple[str, str]) -> None:
        self.clock = HandClock()
        self.names: list[str] = []
        self._wakes = dict(wakes)
        supervisor = Supervisor(Health(self.clock.now_ms), self.clock)
        self.deadlines = Deadlines(self.clock, self._due, supervisor)

    def _due(self, name: str) -> None:
        self.names.append(name)
        assert len(self.names) < 100, "the turn does not end"
        if name in self._wakes:
            self.deadlines.wake(self._wakes[name], self.clock.ms - 500)


def test_a_wake_up_in_the_past_is_for_the_next_turn() -> None:
    called = Called(("a", "a"))
    called.deadlines.wake("a", called.clock.ms)
    called.deadlines.wake("b", called.clock.ms)
    called.deadlines.fire()
    assert called.names == ["a", "b"]
    called.deadlines.fire()
    assert called.names == ["a", "b", "a"]


def test_one_that_wakes_another_who_is_due_calls_it_once() -> None:
    called = Called(("a", "b"))
    called.deadlines.wake("a", called.clock.ms - 1)
    called.deadlines.wake("b", called.clock.ms)
    called.deadlines.fire()
    called.deadlines.fire()
    called.deadlines.fire()
    assert called.names == ["a", "b"]


def test_one_that_is_forgotten_while_it_is_due_is_not_called() -> None:
    called = Called()
    called.deadlines.wake("a", called.clock.ms)
    called.deadlines.forget("a")
    called.deadlines.fire()
    assert called.names == []


async def test_others_have_their_turn_between_two_wake_ups_in_the_past() -> None:
    called = Called(("a", "a"))
    called.deadlines.start()
    called.deadlines.wake("a", called.clock.ms)
    try:
        while len(called.names) < 3:
            await asyncio.sleep(0)
    finally:
        called.deadlines.stop()


def test_what_is_too_much_for_one_turn_is_for_the_next_and_all_have_their_turn() -> None:
    called = Called(("a", "a"))
    note = called.deadlines._due

    def slowly(name: str) -> None:
        called.clock.ms += 10
        note(name)

    called.deadlines._due = slowly
    for name in "abc":
        called.deadlines.wake(name, called.clock.ms)
    for _ in range(5):
        called.deadlines.fire()
    assert called.names == ["a", "b", "c", "a", "a"]
