"""LEDGER.md names exactly the tests that carry a known difference."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
# The decorators above a test, each with its indented or closing lines, and the test's name.
DECORATED = re.compile(r"((?:^@[^\n]*\n(?:[ )][^\n]*\n)*)+)^(?:async )?def (test_\w+)", re.M)


def test_the_ledger_and_the_marks_name_the_same_tests() -> None:
    marked = set()
    for file in HERE.glob("test_*.py"):
        decorated = DECORATED.findall(file.read_text())
        marked |= {name for marks, name in decorated if "known_difference(" in marks}
    ledger = (HERE / "LEDGER.md").read_text()
    differences = ledger.partition("## Known differences")[2].partition("## Not asserted")[0]
    assert marked
    assert set(re.findall(r"^\| `(test_\w+)` \|", differences, re.M)) == marked
