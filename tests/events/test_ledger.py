"""The pure part: any commands, in any batches, with batches that fail, decide what a plain loop decides."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headwater.events.answers import Accepted, Refused, decode_lines
from headwater.events.codec import Codec
from headwater.events.commands import Asked
from headwater.events.desk import _in_doubt as in_doubt
from headwater.events.ledger import Draft, Known, Ledger
from tests.events import bank
from tests.events.bank import Close, Deposit, Withdraw

ACCOUNTS = bank.accounts("accounts")
CODEC = Codec(ACCOUNTS)
amounts = st.integers(1, 20)
commands = st.one_of(st.builds(Deposit, amounts), st.builds(Withdraw, amounts), st.builds(Close))
asked = st.builds(
    Asked,
    id=st.sampled_from(["alice", "bob"]),
    command=commands,
    command_id=st.integers(0, 25).map(str),
    sent_ms=st.just(0),
    expected=st.none() | st.integers(0, 3),
)
batches = st.lists(st.tuples(st.lists(asked, max_size=6), st.booleans()), max_size=12)


def plain(batch: list[Asked]) -> tuple[dict[str, tuple[bank.Account, int]], dict[Any, Any]]:
    """What must come out: one command after another, each id once."""
    states: dict[str, tuple[bank.Account, int]] = {}
    decided: dict[Any, Any] = {}
    for each in batch:
        state, version = states.get(each.id, (bank.Account(), 0))
        if (each.id, each.command_id) in decided:
            continue
        if each.expected is not None and each.expected != version:
            decided[each.id, each.command_id] = False
            continue
        found = bank.decide(state, each.command)
        decided[each.id, each.command_id] = not isinstance(found, Refused)
        if not isinstance(found, Refused):
            states[each.id] = (bank.apply(state, found), version + 1)
    return states, decided


@given(batches)
def test_batches_that_fail_leave_no_trace(found: list[tuple[list[Asked], bool]]):
    ledger = Ledger(ACCOUNTS, 0, CODEC)
    stored: list[Asked] = []
    log: list[tuple[bytes, bytes]] = []
    lines: list[bytes] = []
    for batch, fails in found:
        draft = ledger.decide(batch, 1)
        if fails:
            ledger.undo(draft)
        else:
            stored += batch
            log += draft.events
            lines += [value for _, value in draft.lines]
    states, decided = plain(stored)
    assert {id: tuple(held) for id, held in ledger.held.items()} == states
    assert ledger.next_offset == len(log)
    assert_the_log_says_the_same(ledger, log, lines)
    assert len({(each.id, each.command_id) for each in stored}) == len(decided)
    refused = {
        (line.id, line.command)
        for line in decode_lines(b"".join(lines))
        if line.refused is not None
    }
    assert refused == {command for command, good in decided.items() if not good}


def assert_the_log_says_the_same(
    ledger: Ledger, log: list[tuple[bytes, bytes]], lines: list[bytes]
) -> None:
    """Another owner, which reads the log, knows what this one knows."""
    other = Ledger(ACCOUNTS, 0, CODEC)
    events = CODEC.decode(b"".join(value for _, value in log), len(log))
    other.replay(events, range(len(log)), [1] * len(log))
    other.remember_lines(decode_lines(b"".join(lines)), [1] * len(lines))
    assert other.held == ledger.held
    assert {k: type(a) for k, (a, _, _) in other._decided.items()} == {
        k: type(a) for k, (a, _, _) in ledger._decided.items()
    }


@given(st.lists(asked, min_size=2, max_size=8))
def test_drafts_are_undone_in_the_other_order(batch: list[Asked]):
    ledger = Ledger(ACCOUNTS, 0, CODEC)
    drafts: list[Draft] = [ledger.decide([each], 1) for each in batch]
    for draft in reversed(drafts):
        ledger.undo(draft)
    assert ledger.held == {} and ledger.next_offset == 0 and ledger._decided == {}


def test_what_falls_out_of_the_window_is_doubtful_unless_it_is_fresh():
    ledger = Ledger(ACCOUNTS, 0, CODEC, window=2)
    for n in range(5):
        ledger.decide([Asked("alice", Deposit(1), str(n), 0)], 60_000 * n)
        ledger.trim()
    assert ledger.remembered_from_ms == 60_000 * 2
    old = Asked("alice", Deposit(1), "0", 1)
    assert ledger.doubtful(old)
    assert not ledger.doubtful(Asked("alice", Deposit(1), "new", 1, fresh=True))
    assert not ledger.doubtful(Asked("alice", Deposit(1), "4", 1))  # remembered
    assert not ledger.doubtful(Asked("alice", Deposit(1), "later", 60_000 * 5))
    ledger.cleared.add(("alice", "0"))
    assert not ledger.doubtful(old)


def test_a_command_that_was_taken_back_is_looked_for_however_fresh_it_was():
    """Between the decision and the next claim, another owner may have decided more than is remembered."""
    ledger = Ledger(ACCOUNTS, 0, CODEC, window=2)
    fresh = Asked("alice", Deposit(1), "made here", 1, fresh=True)
    draft = ledger.decide([fresh], 1)
    ledger.undo(draft)
    for n in range(5):  # what the log has by now: that command, too, and others behind it
        ledger.learn(("bob", str(n)), Known(draft.outcomes[0], 60_000 * n))
        ledger.last_ms = 60_000 * n
        ledger.trim()
    assert ledger.doubtful(in_doubt(fresh, draft.outcomes[0])), "it would be decided a second time"


def test_a_command_decided_under_its_former_id_is_doubtful_again_when_that_is_out_of_the_window():
    ledger = Ledger(ACCOUNTS, 0, CODEC, window=2)
    ledger.remembered_from_ms = ledger.last_ms = 1_000_000
    step = Asked("alice", Deposit(5), "saga.abc:t-0-1", 0, former="saga.0:t-0-1")
    assert ledger.doubtful(step)
    before = Known(Accepted("accounts", 0, "alice", 1, 1, 1), 0)
    ledger.looked_up([step], {("alice", "saga.0:t-0-1"): before})
    (first,) = ledger.decide([step], 1_000_001).outcomes
    assert isinstance(first, Accepted) and first.repeated
    for n in range(5):
        now = 2_000_000 + n * 100_000
        ledger.decide([Asked("bob", Deposit(1), f"b{n}", now)], now)
        ledger.trim()
    assert ledger.doubtful(step), "it would be decided a second time"


def test_several_events_of_one_command_are_one_answer():
    def decide(state: bank.Account, command: Any) -> Any:
        return [bank.Deposited(1), bank.Deposited(2)]

    twice = type(ACCOUNTS)("a", bank.Account(), decide, bank.apply, bank.COMMANDS, bank.EVENTS)
    ledger = Ledger(twice, 0, Codec(twice))
    draft = ledger.decide([Asked("alice", Deposit(1), "c", 0)], 1)
    assert draft.outcomes == [Accepted("a", 0, "alice", 2, 2, 2)]
    assert ledger.held["alice"].state.balance == 3


def test_a_full_batch_leaves_the_rest_for_the_next():
    ledger = Ledger(ACCOUNTS, 0, CODEC)
    large = [Asked("alice", bank.Transfer("t" * 200_000, "bob", 0), str(n), 0) for n in range(10)]
    first = ledger.decide(large, 1)
    assert len(first.asked) == len(first.outcomes) == 3
    assert len(ledger.decide(large[3:], 1).asked) == 3
