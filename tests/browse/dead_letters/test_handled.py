"""The account of letters that were dealt with: what is committed is read back as it was."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headwater.browse.dead_letters.letter import Handled, handled


@given(st.integers(0, 1 << 40), st.frozensets(st.integers(0, 300), max_size=50))
def test_an_account_is_read_back_as_it_was_committed(position, ahead):
    account = Handled(position, frozenset(position + each for each in ahead))
    assert handled(position, account.metadata()) == account


def test_neighbours_are_noted_as_ranges():
    account = Handled(17).with_also([19, 22, 23, 24, 26, 3])
    assert account.metadata() == "ahead:2,5-7,9"
    assert [offset in account for offset in (3, 17, 18, 19, 23, 25, 26)] == [
        True,
        False,
        False,
        True,
        True,
        False,
        True,
    ]


def test_what_the_position_has_passed_is_noted_no_longer():
    assert Handled(3, frozenset({4, 8})).moved(6) == Handled(6, frozenset({8}))
    assert Handled(3, frozenset({4})).moved(1) == Handled(3, frozenset({4}))


def test_metadata_of_somebody_else_says_nothing():
    for text in (None, "", "whatever", "ahead:", "ahead:x-y"):
        assert handled(5, text) == Handled(5)


def test_an_account_that_would_be_cut_does_not_fit():
    assert Handled(0, frozenset(range(1, 1000, 2))).fits
    assert not Handled(0, frozenset(range(1, 9000, 2))).fits
