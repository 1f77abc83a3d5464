"""Waits and the breaker: pure, with a clock that the test moves."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import format_datetime

from hypothesis import given
from hypothesis import strategies as st

from headwater.edges.webhooks.retry import RETRY_AFTER_MOST_S, Breaker, Retrying, retry_after_s

SETTINGS = Retrying(breaker_failures=3, breaker_wait_s=10, longest_wait_s=60)


def test_waits_double_up_to_a_bound_and_are_drawn_from_nothing_up():
    retrying = Retrying(first_wait_s=1, longest_wait_s=30)
    assert [retrying.wait_s(n, lambda: 1.0) for n in (1, 2, 3, 6, 50)] == [1, 2, 4, 30, 30]
    assert retrying.wait_s(5, lambda: 0.0) == 0


def test_a_record_is_given_up_after_so_many_attempts_or_so_long():
    retrying = Retrying(attempts=3, give_up_after_s=100)
    assert [retrying.is_over(n, 0) for n in (1, 2, 3)] == [False, False, True]
    assert retrying.is_over(1, 100)


def test_retry_after_is_seconds_or_a_date_within_bounds():
    now = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
    later = format_datetime(now.replace(minute=2), usegmt=True)
    assert retry_after_s("7", now.timestamp()) == 7
    assert retry_after_s(later, now.timestamp()) == 120
    assert retry_after_s(later, now.timestamp() + 500) == 0
    assert retry_after_s("999999", 0) == RETRY_AFTER_MOST_S
    assert retry_after_s(None, 0) == retry_after_s("soon", 0) == 0


@given(st.text(max_size=40))
def test_any_retry_after_is_a_wait(text: str):
    assert 0 <= retry_after_s(text, 1_700_000_000) <= RETRY_AFTER_MOST_S


def test_the_breaker_opens_tries_one_and_closes():
    """
    failures  x x x          x                      ok
    now       0 0 0 ... 10   10 ............... 30  30
    state     closed  | open, one try | open for 20 | closed
    """
    breaker = Breaker(SETTINGS)
    for _ in range(3):
        assert breaker.wait_s(0) == 0
        breaker.failed(0)
    assert (breaker.state, breaker.wait_s(0), breaker.wait_s(4)) == ("open", 10, 6)
    assert breaker.wait_s(10) == 0
    assert (breaker.state, breaker.wait_s(10)) == ("half-open", None)  # another tries already
    breaker.failed(10)
    assert breaker.wait_s(10) == 20
    assert breaker.wait_s(30) == 0
    breaker.succeeded()
    assert (breaker.state, breaker.wait_s(30)) == ("closed", 0)


def test_an_attempt_that_was_ended_lets_another_try():
    breaker = Breaker(SETTINGS)
    for _ in range(3):
        breaker.failed(0)
    assert breaker.wait_s(10) == 0
    breaker.dropped()
    assert breaker.wait_s(10) == 0


def test_rest_that_was_asked_for_holds_everything():
    breaker = Breaker(SETTINGS)
    breaker.failed(0, hold_s=5)
    assert (breaker.state, breaker.wait_s(0), breaker.wait_s(5)) == ("closed", 5, 0)


def test_an_open_breaker_never_waits_longer_than_the_longest_wait():
    breaker = Breaker(SETTINGS)
    for _ in range(40):
        breaker.failed(0)
    assert breaker.wait_s(0) == 60
