"""Rates and tokens on a clock that is turned by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.broker.quotas.windows import Rate, TokenBucket


def test_a_burst_may_take_what_all_but_one_window_allow():
    #  time     0 s      1 s    …    10 s     11 s
    #  taken    100
    #  rate     100/10                        0
    rate = Rate(11, 1.0)
    rate.record(100, 0.0)
    assert rate.excess_seconds(10, 0.0) == 0
    rate.record(1, 0.5)
    assert rate.excess_seconds(10, 0.5) == 0  # half a second has brought five
    rate.record(9, 0.5)
    assert rate.excess_seconds(10, 0.5) == pytest.approx(0.5)  # 110 in 10.5 s: half a second early
    assert rate.value(10.9) == pytest.approx(110 / 10.9)
    assert rate.value(11.0) == 0
    assert rate.idle(11.0)


def test_above_the_limit_the_wait_brings_the_rate_down_to_it():
    rate = Rate(11, 1.0)
    rate.record(200, 0.0)
    wait = rate.excess_seconds(10, 0.0)
    assert wait == pytest.approx(10.0)
    assert rate.excess_seconds(10, wait) == pytest.approx(10.0)  # all in one window: until it goes
    assert rate.excess_seconds(10, 11.0) == 0


def test_a_steady_stream_is_measured_as_it_is():
    rate = Rate(11, 1.0)
    for tenth in range(200):
        rate.record(5, tenth / 10)
    assert rate.value(20.0) == pytest.approx(50, rel=0.1)


def test_what_was_given_back_was_not_taken():
    rate = Rate(3, 1.0)
    rate.record(70, 0.0)
    rate.record(-70, 0.1)
    assert rate.value(0.2) == 0


def test_a_limit_of_nothing_is_waited_for_without_end():
    rate = Rate(3, 1.0)
    rate.record(1, 0.0)
    assert rate.excess_seconds(0, 0.0) == float("inf")


@given(
    st.lists(st.tuples(st.floats(0, 3), st.integers(0, 10_000)), max_size=60),
    st.integers(1, 12),
    st.floats(0.5, 2000),
)
def test_who_waits_as_told_stays_within_the_limit(steps, windows, limit):
    """Over any time: no more than the limit, a burst of all windows, and the last request."""
    rate, now, taken = Rate(windows, 1.0), 0.0, 0
    for pause, size in steps:
        now += pause
        now += min(rate.excess_seconds(limit, now), windows + 1.0)
        rate.record(size, now)
        taken += size
    largest = max((size for _, size in steps), default=0)
    bound = (limit * (windows + 1) + largest) * (now / windows + 2)
    assert taken <= bound


def test_tokens_come_back_by_the_second_and_no_more_than_the_bucket_holds():
    bucket = TokenBucket(2.0, 10, 0.0)
    bucket.take(20, 0.0)
    assert bucket.excess_seconds(0.0) == 0
    bucket.take(6, 0.0)  # overdrawn once
    assert bucket.excess_seconds(0.0) == 3.0
    assert bucket.excess_seconds(1.0) == 2.0
    assert bucket.excess_seconds(3.0) == 0
    assert bucket.idle(13.0)
    bucket.take(20, 100.0)
    assert bucket.excess_seconds(100.0) == 0


def test_a_new_limit_counts_from_then_on():
    bucket = TokenBucket(10.0, 10, 0.0)
    bucket.set_limit(1.0, 0.0)
    bucket.take(15, 0.0)
    assert bucket.excess_seconds(0.0) == 5.0
