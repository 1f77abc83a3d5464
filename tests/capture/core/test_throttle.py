"""A snapshot that spares its database."""

from __future__ import annotations

import pytest

from headwater.capture.change import Throttle
from headwater.capture.config import CaptureConfig
from headwater.capture.errors import Misconfigured


def test_rows_are_paid_for_with_time_and_a_late_reader_gets_nothing_back() -> None:
    throttle = Throttle(100)
    assert throttle.pause_s(50, 10.0) == 0.5  # until 10.5
    assert throttle.pause_s(100, 10.5) == 1.0  # until 11.5
    assert throttle.pause_s(100, 11.0) == 1.5  # read too early: what is open is added
    assert throttle.pause_s(10, 60.0) == pytest.approx(0.1)  # no credit for the time in between


def test_without_a_limit_nothing_waits() -> None:
    assert Throttle(0).pause_s(1_000_000, 1.0) == 0.0


@pytest.mark.parametrize("rate", [-1, 0.5, True, "fast"])
def test_a_limit_that_is_none_is_refused(rate: object) -> None:
    with pytest.raises(Misconfigured, match="is no number of rows"):
        CaptureConfig("shop", "postgresql://h/d", snapshot_rows_per_second=rate)  # type: ignore[arg-type]
