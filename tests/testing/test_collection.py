"""What tests/conftest.py does once all tests are collected."""

from __future__ import annotations

import gc


def test_the_modules_are_not_looked_through_again_for_what_a_file_has_left_open() -> None:
    assert gc.isenabled()
    assert gc.get_freeze_count() > 10_000
