"""LEDGER.md says what the tests here compare, and which of them carry a known difference."""

from __future__ import annotations

from tests.compat.ledger import LEDGER, differences, written


def test_the_ledger_is_what_the_tests_say() -> None:
    assert "test_" in differences(), "the walk finds no mark any more"
    assert LEDGER.read_text() == written(), "write it anew: python -m tests.compat.ledger"
