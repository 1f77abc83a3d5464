"""What was delivered and what the log knows of it: by example, and with kills at every place, from seeds."""

from __future__ import annotations

import random
from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from headwater.browse.dead_letters.letter import handled
from headwater.edges.webhooks import account as accounts
from headwater.edges.webhooks.account import WINDOW, Account, spans_of


def taken(account: Account) -> list[int]:
    found = []
    while (offset := account.take()) is not None:
        found.append(offset)
    return found


def commit(account: Account) -> tuple[int, str]:
    note = account.note()
    assert note is not None
    account.noted(note)
    return note.position, note.metadata


def test_the_next_of_a_key_waits_until_the_one_before_it_is_noted():
    account = Account(10)
    for offset, key in [(10, b"a"), (11, b"b"), (12, b"a"), (13, None), (14, None)]:
        assert account.feed(offset, key)
    assert taken(account) == [10, 11, 13]
    account.done(10)
    assert taken(account) == []  # delivered, but a kill now would deliver it again
    assert commit(account) == (11, "")
    assert taken(account) == [12]
    account.done(13)
    assert commit(account) == (11, "ahead:2")
    assert taken(account) == [14]


def test_after_a_restart_what_was_delivered_ahead_is_not_delivered_again():
    account = Account(11, "ahead:2,4-6")
    fed = {offset: account.feed(offset, b"k%d" % offset) for offset in range(11, 19)}
    assert [offset for offset, is_new in fed.items() if is_new] == [11, 12, 14, 18]
    account.done(11)
    account.done(12)
    assert commit(account) == (14, "ahead:1-3")


def test_a_note_before_the_rest_is_read_again_keeps_what_was_ahead():
    account = Account(11, "ahead:2,4-6")
    account.feed(11, b"a")
    taken(account)
    account.done(11)
    assert commit(account) == (12, "ahead:1,3-5")


def test_holes_between_records_are_no_reason_for_more_ranges():
    account = Account(0)
    for offset in (0, 10, 20, 30, 40):
        account.feed(offset, b"%d" % offset)
    taken(account)
    for offset in (10, 20, 30):
        account.done(offset)
    assert commit(account) == (0, "ahead:10-30")
    account.done(0)
    assert commit(account) == (40, "")


def test_records_that_are_not_wanted_move_the_position_on():
    account = Account(5)
    assert not account.feed(5, b"a", wanted=False)
    assert commit(account) == (6, "")
    assert account.note() is None


def test_the_window_bounds_what_is_held():
    account = Account(0)
    for offset in range(WINDOW):
        assert not account.is_full
        account.feed(offset, b"%d" % offset)
    assert account.is_full
    taken(account)
    account.done(0)
    commit(account)
    assert not account.is_full


def test_what_does_not_fit_into_the_metadata_does_not_count_as_noted(monkeypatch):
    monkeypatch.setattr(accounts, "METADATA_CHARACTERS_MAX", 12)
    account = Account(0)
    for offset in range(8):
        account.feed(offset, b"%d" % (offset % 7))  # 7 has the key of 0
    taken(account)
    for offset in (1, 3, 5):
        account.done(offset)
    assert commit(account) == (0, "ahead:1,3,5")
    account.feed(8, b"3")
    account.feed(9, b"x")
    account.feed(10, b"x")
    assert taken(account) == [8, 9]
    account.done(9)
    assert account.note() is None  # ahead:1,3,5,9 is too long
    assert taken(account) == []
    account.done(0)
    position, metadata = commit(account)
    assert (position, metadata) == (2, "ahead:1,3,7")
    assert taken(account) == [7, 10]


@given(st.integers(0, 10**9), st.text(max_size=30))
def test_any_metadata_is_read_or_says_nothing(position: int, metadata: str):
    assert isinstance(spans_of(position, metadata), list)


def test_the_form_is_that_of_dead_letters():
    noted = handled(11, "ahead:2,4-6")
    assert spans_of(11, "ahead:2,4-6") == [(13, 13), (15, 17)]
    assert noted.ahead == frozenset({13, 15, 16, 17})


@given(st.integers(0, 2**32))
def test_a_kill_may_repeat_a_record_but_never_loses_or_reorders(seed: int):
    """Records of a few keys, some offsets missing; deliveries end in any order; commits succeed, or are
    stored without our hearing of it; the process dies at any moment."""
    chance = random.Random(seed)
    offsets = sorted(chance.sample(range(120), chance.randint(1, 60)))
    log = [(offset, chance.choice([None, b"a", b"b", b"c", b"d"])) for offset in offsets]
    committed: tuple[int, str] = (0, "")
    received: dict[bytes | None, list[int]] = defaultdict(list)
    for turn in range(1000):
        account = Account(*committed)
        rest = [each for each in log if each[0] >= committed[0]]
        under_way: list[int] = []
        keys = dict(log)
        lifetime = chance.randint(1, 40) if turn < 990 else 10_000
        for _ in range(lifetime):
            step = chance.random()
            if step < 0.4 and rest:
                account.feed(*rest.pop(0))
            elif step < 0.8 and under_way:
                offset = under_way.pop(chance.randrange(len(under_way)))
                received[keys[offset]].append(offset)
                if chance.random() < 0.9:
                    account.done(offset)
                else:
                    under_way.append(offset)  # the answer was lost: again
            elif note := account.note():
                committed = (note.position, note.metadata)
                if chance.random() < 0.9:
                    account.noted(note)
                else:
                    break  # stored, and we die before we hear of it
            under_way += taken(account)
        if committed[0] > offsets[-1]:
            break
    assert committed[0] == offsets[-1] + 1, f"seed {seed}"
    for key, got in received.items():
        wanted = [offset for offset, other in log if other == key]
        assert got == sorted(got), f"seed {seed}: {key!r} came as {got}"
        assert sorted(set(got)) == wanted, f"seed {seed}"
    assert sum(len(set(got)) for got in received.values()) == len(log), f"seed {seed}"
