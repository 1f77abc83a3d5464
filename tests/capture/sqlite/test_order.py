"""Changes noted the wrong way round, innermost first, are put into the order in which they happened."""

from __future__ import annotations

from headwater.capture.sqlite.repair import Noted, true_order

A, B, C, D = ((1, text) for text in "abcd")


def test_what_is_in_order_stays() -> None:
    changes = [Noted(1, None, A), Noted(2, A, B), Noted(3, B, None), Noted(4, None, C)]
    assert true_order(changes, [0]) == [1, 2, 3, 4]


def test_a_row_that_goes_to_and_fro_stays() -> None:
    changes = [Noted(1, B, C), Noted(2, C, B), Noted(3, B, C)]
    assert true_order(changes, [0]) == [1, 2, 3]


def test_changes_of_nested_triggers_are_turned_round() -> None:
    """A → B sets off B → C, which sets off C → D; noted from the inside out."""
    changes = [Noted(1, C, D), Noted(2, B, C), Noted(3, A, B), Noted(4, D, None)]
    assert true_order(changes, [0]) == [3, 2, 1, 4]


def test_an_insert_comes_before_what_its_trigger_did() -> None:
    assert true_order([Noted(1, A, B), Noted(2, None, A)], [0]) == [2, 1]
    assert true_order([Noted(1, A, None), Noted(2, None, A)], [0]) == [1, 2], "a row that came back"


def test_a_delete_comes_before_the_row_that_its_trigger_put_back() -> None:
    assert true_order([Noted(1, None, B), Noted(2, A, None)], [0]) == [2, 1]


def test_other_rows_in_between_do_not_matter() -> None:
    other = (2, "x")
    changes = [Noted(1, B, C), Noted(2, None, other), Noted(3, A, B)]
    assert true_order(changes, [0]) == [3, 1, 2]
