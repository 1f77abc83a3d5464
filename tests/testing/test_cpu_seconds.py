"""What is read of a process and who is below whom: tests/cpu_seconds.py, by which the suite is measured."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.cpu_seconds import Meter, Process, below, parse

STAT = "77 (a) (java) S 12 77 77 0 -1 4 1 2 3 4 500 60 7 8 20 0 1 0 9999 1 2"


def test_a_name_may_hold_parentheses() -> None:
    assert parse(STAT) == Process(parent=12, name="a) (java", begun=9999, ticks=575)


def test_all_that_descend_are_found_and_nobody_else() -> None:
    tree = {
        1: Process(0, "init", 0, 9),
        5: Process(1, "tests", 1, 1),
        6: Process(5, "bash", 2, 2),
        7: Process(6, "java", 3, 4),
        8: Process(1, "another", 4, 8),
    }
    assert [pid for pid, _ in below(5, tree)] == [5, 6, 7]


def test_what_a_child_used_is_counted_for_its_file_also_when_it_has_ended() -> None:
    meter = Meter()
    loop = f"import os\nwhile sum(os.times()[:2]) < 0.5: pass\nassert os.getppid() == {os.getpid()}"
    subprocess.run([sys.executable, "-c", loop], check=True)
    meter.look("a")
    meter.look("b")
    assert meter.files["a"].seconds >= 0.4
    assert meter.files["b"].seconds < meter.files["a"].seconds
