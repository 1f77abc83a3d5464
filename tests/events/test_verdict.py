"""What was acknowledged is in the log, can be read back, and is the same to the next owner."""

from __future__ import annotations

import asyncio
import math
import uuid
from dataclasses import dataclass
from typing import Any

import pytest

from headwater.events import Aggregate, Application, Refused
from headwater.events.answers import Accepted
from headwater.events.codec import Codec
from headwater.events.commands import Asked, Meta
from headwater.events.errors import BadCommand, DecideFailed, EventsError, IdReused
from headwater.events.history import Reader
from headwater.events.ledger import Ledger


@dataclass(frozen=True)
class Put:
    what: Any


@dataclass(frozen=True)
class Added:
    amount: int


@dataclass(frozen=True)
class Measured:
    value: float | None


@dataclass(frozen=True)
class Noted:
    what: Any


@dataclass(frozen=True)
class State:
    last: Any = None
    total: int = 0


def adding(name: str) -> Aggregate[State]:
    return Aggregate(
        name,
        State(),
        lambda state, command: Added(command.what),
        lambda state, event: State(event.amount, state.total + event.amount),
        [Put],
        [Added],
    )


def owner(aggregate: Aggregate[Any], bootstrap: str, **more: Any) -> Application[Any]:
    return Application(aggregate, bootstrap, owns="all", partitions=1, timeout_s=60, **more)


async def sent(application: Application[Any], *words: Any, **more: Any) -> Any:
    try:
        return await application.send(*words, **more)
    except (EventsError, UnicodeError, TypeError, ValueError) as error:
        return error


async def test_a_command_that_cannot_be_encoded_takes_no_other_with_it(bootstrap: str, name: str):
    aggregate = adding(name)
    async with owner(aggregate, bootstrap) as bank:
        await bank.send("alice", Put(1))
        await asyncio.gather(
            sent(bank, "alice", Put(10), command_id="good-1"),
            sent(bank, "alice", Put(1), command_id="\ud800", expected_version=77),
            sent(bank, "bob", Put(7), command_id="good-2"),
        )
        first, second = await asyncio.gather(
            sent(bank, "alice", Put(10), command_id="good-1"),
            sent(bank, "bob", Put(7), command_id="good-2"),
        )
        assert isinstance(first, Accepted), first
        assert isinstance(second, Accepted), second
        live = {id: (await bank.state(id)).total for id in ("alice", "bob")}
    with Reader(aggregate, bootstrap) as reader:
        assert {id: reader.state(id).total for id in ("alice", "bob")} == live
        assert live == {"alice": 11, "bob": 7}


@pytest.mark.parametrize(
    "options",
    [{"command_id": 17}, {"who": None, "why": "x"}, {"who": 5}, {"command_id": uuid.UUID(int=7)}],
    ids=str,
)
async def test_what_is_said_with_a_command_can_be_read_back(
    bootstrap: str, name: str, options: dict[str, Any]
):
    aggregate = adding(name)
    async with owner(aggregate, bootstrap) as bank:
        first = await sent(bank, "alice", Put(5), **options)
    if not isinstance(first, Accepted):
        return  # refused before anything is written is right, too
    async with owner(aggregate, bootstrap) as bank:
        assert (await bank.held("alice")).version == 1
        if "command_id" in options:
            assert (await bank.send("alice", Put(5), **options)).repeated


@pytest.mark.parametrize("value", [1.5, "text"])
async def test_no_event_is_acknowledged_that_the_next_owner_cannot_read(
    bootstrap: str, name: str, value: Any
):
    aggregate: Aggregate[State] = Aggregate(
        name,
        State(),
        lambda state, command: Added(command.what),
        lambda state, event: State(event.amount),
        [Put],
        [Added],
    )
    async with owner(aggregate, bootstrap) as bank:
        await sent(bank, "alice", Put(value))
        live = await bank.held("alice")
    async with owner(aggregate, bootstrap) as bank:
        assert await bank.held("alice") == live


@pytest.mark.parametrize(
    ("event", "value"), [(Measured, math.inf), (Noted, {1: 2}), (Noted, (1, 2))], ids=str
)
async def test_replay_gives_the_state_that_was_live(
    bootstrap: str, name: str, event: type, value: Any
):
    aggregate: Aggregate[State] = Aggregate(
        name,
        State(),
        lambda state, command: event(command.what),
        lambda state, found: State(found.value if event is Measured else found.what),
        [Put],
        [event],
    )
    async with owner(aggregate, bootstrap) as bank:
        await sent(bank, "alice", Put(value))
        live = await bank.held("alice")
    async with owner(aggregate, bootstrap) as bank:
        assert await bank.held("alice") == live


@pytest.mark.parametrize("reason", [5, None])
async def test_a_refusal_is_one_to_the_next_owner_too(bootstrap: str, name: str, reason: Any):
    aggregate: Aggregate[State] = Aggregate(
        name, State(), lambda s, c: Refused(reason), lambda s, e: s, [Put], [Added]
    )
    async with owner(aggregate, bootstrap) as bank:
        first = await sent(bank, "alice", Put(1), command_id="a")
    if isinstance(first, Refused):
        async with owner(aggregate, bootstrap) as bank:
            assert isinstance(await bank.send("alice", Put(1), command_id="a"), Refused)


def noting(name: str, decide: Any) -> Ledger:
    aggregate: Aggregate[State] = Aggregate(
        name, State(), decide, lambda s, e: State(e.what, s.total + 1), [Put], [Noted]
    )
    return Ledger(aggregate, 0, Codec(aggregate))


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": 17},
        {"id": "\ud800"},
        {"id": "\0position"},
        {"command_id": ""},
        {"command_id": None},
        {"meta": Meta(who=5)},  # type: ignore[arg-type]
        {"meta": Meta(why="\udfff")},
        {"expected": "3"},
        {"sent_ms": 1.5},
    ],
    ids=str,
)
def test_a_command_that_could_not_be_written_is_none(wrong: dict[str, Any]):
    with pytest.raises(BadCommand):
        Asked(**{"id": "alice", "command": Put(1), "command_id": "c", "sent_ms": 0} | wrong)


def test_what_is_raised_in_the_middle_of_a_batch_leaves_no_trace():
    def decide(state: State, command: Put) -> Any:
        if command.what == "stop":
            raise KeyboardInterrupt
        return Noted(command.what) if command.what else None

    ledger = noting("notes", decide)
    ledger.decide([Asked("alice", Put("a"), "a", 0)], 5)
    before = (dict(ledger.held), ledger.next_offset, ledger.last_ms, dict(ledger._decided))
    batch = [Asked("alice", Put(each), str(each), 0) for each in ("b", None, "stop")]
    with pytest.raises(KeyboardInterrupt):
        ledger.decide(batch, 9)
    assert before == (ledger.held, ledger.next_offset, ledger.last_ms, ledger._decided)


def test_undoing_restores_the_time_too():
    ledger = noting("notes", lambda state, command: Noted(command.what))
    ledger.undo(ledger.decide([Asked("alice", Put(1), "a", 0)], 9_000_000))
    assert ledger.last_ms == 0


def test_an_event_that_would_break_the_lines_is_refused():
    import msgspec

    ledger = noting("notes", lambda state, command: Noted(msgspec.Raw(b"[1,\n2]")))
    draft = ledger.decide([Asked("alice", Put(1), "a", 0)], 1)
    assert isinstance(draft.outcomes[0], DecideFailed) and not draft.events


@dataclass(frozen=True, eq=False)
class Bare:
    what: Any


def test_a_class_without_equality_is_compared_by_its_fields():
    bare: Aggregate[State] = Aggregate(
        "bare", State(), lambda s, c: Bare(c.what), lambda s, e: State(e.what), [Put], [Bare]
    )
    ledger = Ledger(bare, 0, Codec(bare))
    good, bad = ledger.decide(
        [Asked("a", Put([1, {"x": 2}]), "1", 0), Asked("a", Put((1, 2)), "2", 0)], 1
    ).outcomes
    assert isinstance(good, Accepted) and isinstance(bad, DecideFailed)


def test_an_id_is_for_one_command():
    ledger = noting("notes", lambda state, command: Noted(command.what))

    def told(what: Any, id: str = "alice", **more: Any) -> Any:
        (outcome,) = ledger.decide([Asked(id, Put(what), "c", 0, **more)], 1).outcomes
        return outcome

    assert isinstance(told("credit"), Accepted)
    assert told("credit").repeated
    assert isinstance(told("fee"), IdReused)
    assert isinstance(told("fee", id="bob"), Accepted)
    other = noting("notes", lambda state, command: None)
    line = other.decide([Asked("alice", Put(1), "c", 0)], 1).lines[0][1]
    from headwater.events.answers import decode_lines

    third = noting("notes", lambda state, command: None)
    third.remember_lines(decode_lines(line), [1])
    again, reused = third.decide(
        [Asked("alice", Put(1), "c", 0), Asked("alice", Put(2), "c", 0)], 2
    ).outcomes
    assert isinstance(again, Accepted) and again.repeated
    assert isinstance(reused, IdReused)


def test_what_was_decided_under_a_former_id_is_not_decided_again():
    ledger = noting("notes", lambda state, command: Noted(command.what))
    ledger.decide([Asked("alice", Put(1), "old", 0, fresh=True)], 1)
    (outcome,) = ledger.decide([Asked("alice", Put(1), "new", 0, former="old")], 2).outcomes
    assert isinstance(outcome, Accepted) and outcome.repeated
    assert ledger.held["alice"].version == 1
