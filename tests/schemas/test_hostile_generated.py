"""No schema that chance makes of what multiplies work keeps a reader or a writer busy: `hostile` makes them.

The bounds are far from what they take (some two seconds, and half a gigabyte): what has none takes minutes or
many gigabytes, and ends its process.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest

from tests.schemas import hostile

ROUNDS = int(os.environ.get("HEADWATER_HOSTILE_ROUNDS", "4"))
pytestmark = pytest.mark.timeout(1800)


def test_whatever_a_schema_is_readers_and_writers_come_to_an_end():
    seed = random.randrange(2**31)
    done = subprocess.run(
        [sys.executable, "-m", "tests.schemas.hostile", str(seed), str(ROUNDS)],
        capture_output=True,
        text=True,
    )
    said = done.stdout.split("\n")
    assert (done.returncode, said[-2]) == (0, "done"), (said[-2], done.stderr[-3000:])


def test_what_takes_too_long_is_seen(monkeypatch: pytest.MonkeyPatch):
    """The canary: a loop without an end."""
    code = (
        "from tests.schemas import hostile\n"
        "hostile.CPU_S = 0.5\n"
        "hostile.tries = lambda seed: iter([('loop', lambda: [None for _ in iter(int, 1)])])\n"
        "hostile.run(1, 1)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode != 0 and done.stdout == "1 loop\n"


def test_each_language_comes():
    kinds = {type(hostile.made(seed)[0]) for seed in range(20)}
    assert kinds == {hostile.Avro, hostile.Json, hostile.Protobuf}
