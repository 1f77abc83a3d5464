"""The examples of dual writes: they diverge, and through the log they do not."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "examples" / "dual_writes"


def ran(name: str) -> list[str]:
    own = {name: value for name, value in os.environ.items() if name != "HEADWATER_BOOTSTRAP"}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(FOLDER / f"{name}.py")],
        env=own,
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_two_clients_in_different_orders_make_two_systems_differ_for_good():
    (said,) = ran("race")
    found = re.match(r"database and warehouse differ in (\d+) of 200 items, permanently", said)
    assert found is not None
    assert int(found[1]) == 61  # the seed's


def test_a_write_that_fails_half_way_makes_them_differ_too():
    first, second = ran("partial_failure")
    assert first.startswith("30 clients were told that their write failed")
    assert second.startswith("warehouse and database differ in 30 of 200 items, permanently")


def test_through_the_log_they_are_equal_and_nothing_is_done_twice():
    first, second = ran("through_the_log")
    assert re.fullmatch(r"database and warehouse are equal: \d+ items", first)
    found = re.fullmatch(r"every write counted once: (\d+) and (\d+)", second)
    assert found is not None and found[1] == found[2]
