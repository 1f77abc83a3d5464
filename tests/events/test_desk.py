"""Batches on their way: refused, lost, in doubt; nobody is told anything that the log does not say."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headwater.events import Aggregate, Application, BlockingApplication, Refused
from headwater.events import owner as owners
from headwater.events.answers import Accepted
from headwater.events.errors import BadCommand, EventsError
from headwater.events.history import Reader
from tests.events.test_verdict import Noted, Put, State, adding, owner, sent

LARGE = 3 << 20


async def test_a_clock_that_jumped_and_came_back_stops_nobody(bootstrap: str, name: str):
    async with owner(adding(name), bootstrap) as bank:
        await bank.send("alice", Put(1))
        desk = bank._owners[0].desk
        true = desk.now_ms
        desk.now_ms = lambda: true() + 10 * 86_400_000
        assert isinstance(await sent(bank, "alice", Put(1)), EventsError)
        desk.now_ms = true
        assert isinstance(await sent(bank, "alice", Put(1)), Accepted)


def choosy(name: str) -> Aggregate[State]:
    """At most one note; some are larger than a batch may be."""

    def decide(state: State, command: Put) -> Any:
        if state.total:
            return Refused("there is one")
        return Noted("x" * LARGE if command.what == "large" else command.what)

    return Aggregate(
        name, State(), decide, lambda s, e: State(len(e.what), s.total + 1), [Put], [Noted]
    )


async def test_who_was_decided_beside_a_batch_that_is_too_large_is_told_as_sent_once(
    bootstrap: str, name: str
):
    async with owner(choosy(name), bootstrap) as notes:
        await notes.send("alice", Put("a"))
        large, refused, other = await asyncio.gather(
            sent(notes, "bob", Put("large")),
            sent(notes, "alice", Put("b"), command_id="b"),
            sent(notes, "carl", Put("c"), command_id="c"),
        )
        assert isinstance(large, EventsError) and "larger than a batch" in str(large)
        assert refused == Refused("there is one")
        assert isinstance(other, Accepted) and not other.repeated
        assert (await notes.send("carl", Put("c"), command_id="c")).repeated


async def test_a_refusal_that_follows_from_events_which_never_came_is_none(
    bootstrap: str, name: str
):
    async with owner(choosy(name), bootstrap) as notes:
        await notes.send("alice", Put("a"))
        large, other = await asyncio.gather(
            sent(notes, "bob", Put("large")), sent(notes, "bob", Put("b"), command_id="b")
        )
        assert isinstance(large, EventsError)
        assert isinstance(other, Accepted)  # refused only by a state that never was


async def test_a_look_into_the_log_that_fails_stops_nobody_else(
    bootstrap: str, name: str, monkeypatch: pytest.MonkeyPatch
):
    async with owner(adding(name), bootstrap) as bank:
        await bank.send("alice", Put(1))
        ledger = bank._owners[0].desk.ledger
        ledger.remembered_from_ms = ledger.last_ms + 60_000
        ledger._decided.clear()

        def fails(*_: Any) -> Any:
            raise ValueError("no line of JSON")

        monkeypatch.setattr(owners, "find_decisions", fails)
        old, new = await asyncio.gather(
            sent(bank, "alice", Put(1), command_id="old", sent_at_ms=0),
            sent(bank, "alice", Put(2)),
        )
        assert isinstance(old, EventsError) and "not known" in str(old)
        assert isinstance(new, Accepted)


async def test_a_time_of_zero_is_a_time(bootstrap: str, name: str):
    """Sent first in 1970: the owner looks for it, however long ago."""
    async with owner(adding(name), bootstrap) as bank:
        await bank.send("alice", Put(1), command_id="a")
        ledger = bank._owners[0].desk.ledger
        ledger._decided.clear()
        ledger.remembered_from_ms = 1
        assert (await bank.send("alice", Put(1), command_id="a", sent_at_ms=0)).repeated


def test_a_thread_that_asks_for_nonsense_holds_up_no_other(bootstrap: str, name: str):
    with BlockingApplication(adding(name), bootstrap, owns="all", partitions=1) as bank:
        for wrong in ((17, Put(1)), ("a", Put(1), "more")):
            with pytest.raises((BadCommand, TypeError)):
                bank.send(*wrong)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            bank.send("alice", Put(1), nonsense=3)
        assert isinstance(bank.send("alice", Put(1)), Accepted)


async def forwarding(name: str, bootstrap: str) -> tuple[Application[State], Application[State]]:
    options: dict[str, Any] = {"partitions": 1, "session_timeout_ms": 2_000, "timeout_s": 20}
    first = Application(choosy(name), bootstrap, **options)
    await first.start()
    other = Application(choosy(name), bootstrap, owns="none", timeout_s=20)
    await other.start()
    return first, other


async def test_two_who_ask_under_one_id_are_both_answered(bootstrap: str, name: str):
    first, other = await forwarding(name, bootstrap)
    try:
        await other.send("alice", Put("a"))
        same = [sent(other, "bob", Put("b"), command_id="b") for _ in range(2)]
        found = await asyncio.gather(*same, sent(other, "bob", Put("c"), command_id="b"))
        assert [isinstance(each, Accepted) for each in found] == [True, True, False]
        assert [each.repeated for each in found[:2]] == [False, True]
        assert not other._forwarding._waiting
    finally:
        await other.close()
        await first.close()


async def test_a_failure_is_told_when_no_owner_will_read_the_command_again(
    bootstrap: str, name: str
):
    first, other = await forwarding(name, bootstrap)
    try:
        await other.send("alice", Put("a"))
        failed = await sent(other, "bob", Put(5))
        assert isinstance(failed, EventsError)
        committed = first._membership._committed[0]  # type: ignore[union-attr]
        assert committed == 2  # both are behind every later owner
    finally:
        await other.close()
        await first.close()
    with Reader(choosy(name), bootstrap) as reader:
        assert reader.held("bob").version == 0
