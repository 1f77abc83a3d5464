"""Whose batch runs: so many at a time, in the order of asking, and nobody is held up by one that is stuck."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from headwater.pipelines.slots import LEASE_S, Slots
from tests.compat.waiting import until


class View(threading.Thread):
    """Wants one slot, and has it until it is told."""

    def __init__(self, slots: Slots, ran: list[str], name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._slots, self._ran = slots, ran
        self.done, self.stopped = threading.Event(), threading.Event()

    def run(self) -> None:
        with self._slots.slot(self.stopped):
            self._ran.append(self.name)
            self.done.wait()


class Desk:
    """Views that ask one after the other."""

    def __init__(self, count: int) -> None:
        self.now = 100.0
        self.slots = Slots(count, lambda: self.now)
        self.ran: list[str] = []
        self.views: dict[str, View] = {}

    def ask(self, name: str) -> View:
        waiting = len(self.slots._queue)
        view = self.views[name] = View(self.slots, self.ran, name)
        view.start()
        until(lambda: name in self.ran or len(self.slots._queue) > waiting, f"{name} to ask")
        return view

    def close(self) -> None:
        for view in self.views.values():
            view.stopped.set()
            view.done.set()
        for view in self.views.values():
            view.join()


@pytest.fixture
def new_desk():
    made: list[Desk] = []

    def make(count: int) -> Desk:
        made.append(Desk(count))
        return made[-1]

    yield make
    for desk in made:
        desk.close()


NewDesk = Callable[[int], Desk]


def test_so_many_run_at_a_time_and_the_others_in_the_order_of_asking(new_desk: NewDesk):
    """
    slot 1  |a......|c..|e
    slot 2  |b.........|d....
    """
    desk = new_desk(2)
    for name in "abcde":
        desk.ask(name)
    assert desk.ran == ["a", "b"]
    for ends, begins in (("a", "c"), ("b", "d"), ("c", "e")):
        desk.views[ends].done.set()
        until(lambda begins=begins: desk.ran[-1] == begins, f"{begins} to run")
    assert desk.ran == [*"abcde"]


def test_one_that_is_stuck_counts_for_a_while_only(new_desk: NewDesk):
    desk = new_desk(1)
    desk.ask("stuck")
    desk.ask("next")
    assert desk.ran == ["stuck"]
    desk.now += LEASE_S
    until(lambda: desk.ran == ["stuck", "next"], "the next to run beside it")
    desk.ask("third")
    assert desk.ran == ["stuck", "next"], "only the stuck one no longer counts"


def test_who_is_told_to_stop_waits_for_nobody(new_desk: NewDesk):
    desk = new_desk(1)
    desk.ask("long")
    leaving, last = desk.ask("leaving"), desk.ask("last")
    leaving.stopped.set()
    until(lambda: "leaving" in desk.ran, "it to go on, and to end")
    leaving.done.set()
    leaving.join()
    assert desk.ran == ["long", "leaving"]
    desk.views["long"].done.set()
    until(lambda: desk.ran[-1] == "last", "the others to have their turn")
    last.done.set()


def test_a_slot_is_free_again_after_a_failure(new_desk: NewDesk):
    desk = new_desk(1)
    with pytest.raises(ValueError, match="bad batch"), desk.slots.slot(threading.Event()):
        raise ValueError("bad batch")
    desk.ask("next")
    assert desk.ran == ["next"]
